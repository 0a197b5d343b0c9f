"""The program's end of the line to its engine's process: sends messages, hands answers to those who wait, misses it."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from sureact.distributed.worker_processes import exit_name
from sureact.errors import RequestAbortedError, SureactError, WorkerLostError
from sureact.execution.uninterrupted import uninterrupted
from sureact.isolation.messages import (
    Answer,
    Ask,
    Cancel,
    Close,
    CloseSession,
    End,
    Failure,
    pack_failure,
    unpack_failure,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sureact.outputs import StreamDelta

    Piece = StreamDelta | End | Failure | Answer

_MODULE = "sureact.isolation.engine_worker"
_END_TIMEOUT_S = 60.0
"""A pass of a large model, which is waited for, may take long on a CPU."""
_EXIT_TIMEOUT_S = 5.0


class Reply(Protocol):
    """Takes the pieces of one answer, on the reader's thread."""

    def put(self, piece: Piece) -> None:
        """Take a piece; neither block nor raise. The last is no delta."""
        ...


class Channel:
    """Starts the process, and speaks with it from any thread. One thread reads for all.

    The process is a plain command, no fork, which CUDA does not survive, and none of multiprocessing's spawned copies,
    which run the user's script again. It ends with this one, however this one ends. A fork of this process has no part
    in it.
    """

    def __init__(self, options: Mapping[str, object], progress: Callable[[str], None] | None) -> None:
        """Start the process and wait until its engine is loaded.

        Raises:
            SureactError: see `Engine`.
        """
        self._owner_id = os.getpid()
        self._process, self._connection = _start()
        # Reentrant: the garbage collector may close a forgotten engine on a thread that sends.
        self._lock = threading.RLock()
        self._replies: dict[int, Reply] = {}
        self._last_id = 0
        self._fault: tuple[type[SureactError], str] | None = None
        self._is_closing = False
        self._forgotten: deque[Cancel | CloseSession] = deque()
        try:
            self.loaded: tuple[Any, ...] = self._load(options, progress)
        except BaseException:
            self._process.kill()
            self._end_process()
            self._close_pipes()
            raise
        self._reader = threading.Thread(target=self._read_all, name="sureact-reader", daemon=True)
        self._reader.start()

    @property
    def process_id(self) -> int:
        """Of the engine's process."""
        return self._process.pid

    @property
    def fault(self) -> SureactError | None:
        """Why nothing can be asked any more; None while it can."""
        if os.getpid() != self._owner_id:
            return WorkerLostError(
                f"The engine was opened by process {self._owner_id}; its fork {os.getpid()} has no part in it. Open an "
                "engine after forking."
            )
        return None if self._fault is None else self._fault[0](self._fault[1])

    def start(self, reply: Reply, message_of: Callable[[int], object]) -> int:
        """Send a message that is answered, and return its number, which `message_of` writes into it.

        Raises:
            WorkerLostError: the process is gone.
            RequestAbortedError: the engine is closed.
        """
        with self._lock:
            if (fault := self.fault) is not None:
                raise fault
            self._last_id += 1
            call_id = self._last_id
            message = message_of(call_id)
            self._replies[call_id] = reply
        self.send(message)
        return call_id

    def ask(self, verb: str, *arguments: object) -> Any:
        """Ask and wait for the answer.

        Raises:
            SureactError: what went wrong there, or the process is gone.
        """
        reply = _Answered()
        self.start(reply, lambda call_id: Ask(call_id, verb, arguments))
        return reply.wait()

    def send(self, message: object) -> None:
        """Send a message; where the process is gone, the reader finds out and tells all who wait."""
        packed = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        with uninterrupted(), self._lock, suppress(OSError):  # half a message would garble all after it
            self._connection.send_bytes(packed)

    def forget(self, message: Cancel | CloseSession) -> None:
        """Send a message soon, and take no lock: the garbage collector calls it."""
        self._forgotten.append(message)

    def close(self) -> None:
        """End the engine, after the step that runs, and the process; one that does not end is killed."""
        if os.getpid() != self._owner_id or self._is_closing:
            return
        self._is_closing = True
        self._end_with(RequestAbortedError, "The engine is closed. Open a new one and ask again.", fail_replies=False)
        if threading.current_thread() is self._reader:  # the garbage collector's doing: nobody waits for anything
            self._process.kill()
            self._end_process()
            self._close_pipes()
            return
        self.send(Close())
        self._reader.join(_END_TIMEOUT_S)
        self._end_process()
        self._reader.join()
        self._close_pipes()

    def _load(self, options: Mapping[str, object], progress: Callable[[str], None] | None) -> tuple[Any, ...]:
        try:
            self._connection.send_bytes(pickle.dumps(dict(options), pickle.HIGHEST_PROTOCOL))
            while True:
                piece = pickle.loads(self._connection.recv_bytes())  # from the process started here
                if isinstance(piece, Answer):
                    return piece.value
                if isinstance(piece, Failure):
                    raise unpack_failure(piece)
                if progress is not None:
                    progress(piece)
        except (EOFError, ConnectionError) as error:
            raise WorkerLostError(self._loss("while it loaded the model")) from error

    def _read_all(self) -> None:
        try:
            while True:
                pieces = pickle.loads(self._connection.recv_bytes())  # from the process started here
                for call_id, piece in pieces:
                    is_last = isinstance(piece, (End, Failure, Answer))
                    reply = self._replies.pop(call_id, None) if is_last else self._replies.get(call_id)
                    if reply is not None:
                        reply.put(piece)
                del pieces
                self.send_forgotten()
        except (EOFError, OSError):
            if self._is_closing:
                self._end_with(*(self._fault or (RequestAbortedError, "")))
            else:
                self._end_with(WorkerLostError, self._loss(""))

    def send_forgotten(self) -> None:
        """Send what was forgotten until now."""
        while self._forgotten:
            self.send(self._forgotten.popleft())

    def _end_with(self, kind: type[SureactError], text: str, *, fail_replies: bool = True) -> None:
        """Let no call begin any more, and fail those that wait."""
        with self._lock:
            self._fault = self._fault or (kind, text)
            if not fail_replies:
                return
            replies = list(self._replies.values())
            self._replies.clear()
        for reply in replies:
            reply.put(pack_failure(kind(text)))

    def _loss(self, when: str) -> str:
        try:
            how = exit_name(self._process.wait(timeout=_EXIT_TIMEOUT_S))
        except subprocess.TimeoutExpired:
            how = "a closed connection"
            self._process.kill()
        moment = f" {when}" if when else ""
        return f"The engine's process ({self.process_id}) ended{moment} with {how}. Open a new engine and ask again."

    def _end_process(self) -> None:
        try:
            self._process.wait(timeout=_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _close_pipes(self) -> None:
        self._connection.close()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()


class _Answered:
    """Waits for the one piece that answers a question."""

    def __init__(self) -> None:
        # Not an event, whose wait may end with another error than the interrupt that ends it.
        self._pieces: SimpleQueue[Piece] = SimpleQueue()

    def put(self, piece: Piece) -> None:
        self._pieces.put(piece)

    def wait(self) -> Any:
        piece = self._pieces.get()
        if isinstance(piece, Failure):
            raise unpack_failure(piece)
        assert isinstance(piece, Answer)
        return piece.value


def _start() -> tuple[subprocess.Popen[bytes], Connection]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            # What interrupts this process must not end it: this one decides. In a session of its own it would share the
            # processors evenly with all threads here together, however nice those that run tools are.
            process_group=0,
        )
    return process, Connection(ours.detach())
