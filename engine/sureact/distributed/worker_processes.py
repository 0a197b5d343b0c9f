"""The other processes of one model: started, spoken to, missed when they are gone, ended."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

from sureact.errors import WorkerLostError

_END_TIMEOUT_S = 10.0
_END_CHECK_S, _END_CHECKS = 0.02, 25


class WorkerProcesses:
    """Processes that each run a Python module, with a pipe to each.

    They end with this process, however it ends: each watches its standard input, which closes then. They are plain
    commands, not forks (CUDA allows none) nor multiprocessing's spawned copies (which run the user's script again).

    Args:
        module: run with `python -m`, the file descriptor of its pipe as its argument.
        num_workers: processes to start.
        timeout_s: longest that a message waits to be taken, or `receive` for an answer.
        environment: variables beside those of this process.
    """

    def __init__(self, module: str, num_workers: int, *, timeout_s: float, environment: dict[str, str]) -> None:
        self._timeout_s = timeout_s
        self._workers: list[tuple[subprocess.Popen[bytes], Connection]] = []
        self._finalizer = weakref.finalize(self, _end, self._workers, _END_TIMEOUT_S)
        for _ in range(num_workers):
            self._workers.append(_start(module, timeout_s, environment))

    @property
    def process_ids(self) -> list[int]:
        """Of each worker."""
        return [process.pid for process, _ in self._workers]

    def send(self, message: bytes) -> None:
        """Send a message to every worker.

        Raises:
            WorkerLostError: one is gone or takes nothing.
        """
        self.send_each([message] * len(self._workers))

    def send_each(self, messages: Sequence[bytes]) -> None:
        """Send each worker a message of its own.

        Raises:
            WorkerLostError: one is gone or takes nothing.
        """
        for index, ((_, connection), message) in enumerate(zip(self._workers, messages, strict=True)):
            try:
                connection.send_bytes(message)
            except (OSError, ValueError) as error:
                raise self._lost(index, str(error)) from error

    def receive(self, *, waits_forever: bool = False) -> list[bytes]:
        """Return the next message of every worker.

        Args:
            waits_forever: whether the time is not limited: loading takes what it takes.

        Raises:
            WorkerLostError: one is gone, or did not answer in time.
        """
        messages: list[bytes] = []
        for index, (_, connection) in enumerate(self._workers):
            try:
                if not connection.poll(None if waits_forever else self._timeout_s):
                    raise self._lost(index, f"no answer within {self._timeout_s:g} seconds")
                messages.append(connection.recv_bytes())
            except (OSError, EOFError) as error:
                raise self._lost(index, str(error) or "its pipe is closed") from error
        return messages

    def find_lost(self) -> WorkerLostError | None:
        """Name a worker that ended, waiting a moment for the system to say so."""
        for _ in range(_END_CHECKS):
            for index, (process, _) in enumerate(self._workers):
                if process.poll() is not None:
                    return self._lost(index, "")
            time.sleep(_END_CHECK_S)
        return None

    def close(self) -> None:
        """Close the pipes, which ends the workers; those that are still there after a while are killed."""
        self._finalizer()

    def kill(self) -> None:
        """End the workers at once."""
        for process, _ in self._workers:
            process.kill()
        self._finalizer()

    def _lost(self, index: int, reason: str) -> WorkerLostError:
        process = self._workers[index][0]
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(timeout=1)
            reason = f"ended with {exit_name(code)}"
        return WorkerLostError(f"Process {index + 1} of the model ({process.pid}) is lost: {reason}.")


def end_with_standard_input() -> None:
    """Wait until standard input closes, then end this process at once; for a thread of its own in a worker."""
    while os.read(0, 1):
        pass
    os._exit(0)


def _start(module: str, timeout_s: float, environment: dict[str, str]) -> tuple[subprocess.Popen[bytes], Connection]:
    ours, theirs = socket.socketpair()
    seconds = int(timeout_s)
    limit = struct.pack("ll", seconds, int((timeout_s - seconds) * 1e6))
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(theirs.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
            # What interrupts this process must not end them; it decides.
            start_new_session=True,
        )
    return process, Connection(ours.detach())


def _end(workers: list[tuple[subprocess.Popen[bytes], Connection]], timeout_s: float) -> None:
    for process, connection in workers:
        connection.close()
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
    for process, _ in workers:
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def exit_name(code: int) -> str:
    """Say how a process ended."""
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
