"""Runs in the engine's process: takes messages, runs them on an engine, sends what comes of them.

No thread waits for a token: the engine's own puts what it hands out into one queue, and one thread empties that and
sends whatever has gathered as one message.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from sureact.errors import RequestAbortedError
from sureact.isolation.messages import (
    Answer,
    Ask,
    Cancel,
    Change,
    Close,
    CloseSession,
    End,
    Failure,
    Generate,
    pack_failure,
    unpack_constraint,
)
from sureact.kv_cache.cached_sequence import CachedSequence

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from sureact.engine import Engine
    from sureact.outputs import StreamDelta
    from sureact.scheduling.request import Request
    from sureact.session import Session

_MAX_THREADS = 8
"""Constraints that may compile, which may take seconds, before a request waits for a thread."""

Piece = tuple[int, "StreamDelta | End | Failure | Answer"]
"""A part of the answer to the call of that number."""


class EngineService:
    """Serves one program until it says `Close` or is gone."""

    def __init__(self, engine: Engine, connection: Connection) -> None:
        self._engine = engine
        self._connection = connection
        self._outbox: SimpleQueue[Piece | None] = SimpleQueue()
        self._workers = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="sureact-service")
        self._generations: dict[int, _Generation] = {}
        self._sessions: dict[int, Session] = {}
        self._verbs: dict[str, Callable[..., object]] = {
            "stats": engine.stats,
            "clear_prefix_cache": engine.clear_prefix_cache,
            "declare_public_prefix": engine.declare_public_prefix,
            "session_origin": lambda: engine.session_origin,
            "count_late_refusal": engine.loop.count_late_refusal,
            "num_cached_tokens": self._num_cached_tokens,
            "fork": self._fork,
            "save": self._save,
            "load": self._load,
        }

    def serve(self) -> None:
        """Take messages until the last; then end what runs, and send that."""
        sender = Thread(target=self._send_all, name="sureact-sender", daemon=True)
        sender.start()
        with suppress(EOFError, OSError):  # the program is gone
            while True:
                message = pickle.loads(self._connection.recv_bytes())  # from the program
                if isinstance(message, Close):
                    break
                self._take(message)
        self._engine.close()
        self._outbox.put(None)
        sender.join()

    def _take(self, message: object) -> None:
        """Begin what a message asks for; nothing that takes long is done here."""
        match message:
            case Generate():
                generation = _Generation(message, self._outbox.put, self._generations)
                self._generations[message.call_id] = generation
                if isinstance(message.prompt, Change):
                    generation.session = self._session(message.prompt)
                self._workers.submit(self._generate, message, generation)
            case Cancel(call_id):
                if (generation := self._generations.get(call_id)) is not None:
                    generation.is_cancelled = True
                    if generation.request is not None:
                        self._engine.loop.cancel(generation.request)
            case CloseSession(session_id):
                if (session := self._sessions.pop(session_id, None)) is not None:
                    self._workers.submit(session.close)
            case Ask():
                self._workers.submit(self._answer, message)
            case _:
                raise TypeError(f"{type(message).__name__} is no message")

    def _generate(self, message: Generate, generation: _Generation) -> None:
        try:
            constraint = unpack_constraint(message.constraint)
            if isinstance(message.prompt, Change):
                session = self._changed(message.prompt, generation.session)
                generation.num_before = len(session)
                session.submit(message.params, constraint, generation.attach)
                return
            request = self._engine.new_request(
                CachedSequence(message.prompt, cache_salt=message.cache_salt),
                message.params,
                constraint,
                index=message.completion_index,
                owns_sequence=True,
            )
            generation.attach(request)
            self._engine.loop.submit(request)
        except BaseException as error:  # whatever it is, the program waits for it
            generation.deliver(error)

    def _answer(self, message: Ask) -> None:
        try:
            piece = Answer(self._verbs[message.verb](*message.arguments))
        except BaseException as error:  # whatever it is, the program waits for it
            piece = pack_failure(error)
        self._outbox.put((message.call_id, piece))

    def _session(self, change: Change) -> Session:
        session = self._sessions.get(change.session_id)
        if session is None:
            session = self._sessions[change.session_id] = self._engine.session(cache_salt=change.cache_salt)
        return session

    def _changed(self, change: Change, session: Session | None = None) -> Session:
        """Return a session with the context that the program says it has."""
        session = session or self._session(change)
        if len(session) > change.keep:
            session.truncate(change.keep)
        if change.token_ids:
            session.append(change.token_ids)
        return session

    def _num_cached_tokens(self, session_id: int) -> int:
        return self._sessions[session_id].num_cached_tokens

    def _fork(self, change: Change, session_id: int) -> None:
        self._sessions[session_id] = self._changed(change).fork()

    def _save(self, change: Change, path: str, with_kv: bool) -> None:
        self._changed(change).save(path, with_kv=with_kv)

    def _load(self, change: Change, path: str) -> tuple[int, list[int]]:
        session = self._changed(change)
        return session.load(path), session.token_ids

    def _send_all(self) -> None:
        with suppress(OSError):  # the program is gone
            while True:
                pieces = [self._outbox.get()]
                with suppress(Empty):
                    while True:
                        pieces.append(self._outbox.get_nowait())
                self._connection.send_bytes(pickle.dumps([p for p in pieces if p], pickle.HIGHEST_PROTOCOL))
                if None in pieces:
                    return


class _Generation:
    """One generation that the program waits for."""

    def __init__(self, message: Generate, send: Callable[[Piece], object], generations: dict[int, Any]) -> None:
        self.is_cancelled = False
        self.request: Request | None = None
        self.session: Session | None = None
        self.num_before = 0
        """Tokens of the session before the generated ones."""
        self._message = message
        self._send = send
        self._generations = generations

    def attach(self, request: Request) -> None:
        """Take the deltas of a request.

        Raises:
            RequestAbortedError: the program does not want it any more.
        """
        request.deliver = self.deliver
        self.request = request
        if self.is_cancelled:
            raise RequestAbortedError("The stream was closed before its request began.")

    def deliver(self, delta: StreamDelta | BaseException) -> None:
        """Hand over a delta or an error; neither blocks nor raises."""
        call_id = self._message.call_id
        if isinstance(delta, BaseException):
            tail = self.session.token_ids[self.num_before :] if self.session and self.num_before else []
            self._send((call_id, pack_failure(delta, tail)))
        elif delta.output is not None:
            self._send((call_id, End(delta, list(delta.output.token_ids) if self.session else [])))
        else:
            if self._message.is_streamed:
                self._send((call_id, delta))
            return
        self._generations.pop(call_id, None)
