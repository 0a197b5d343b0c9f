"""A contestant in a process of its own, so that no engine meets the threads, the allocator or the crash of another."""

from __future__ import annotations

import multiprocessing
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from benchmarks.peers.work import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from benchmarks.peers.contestant import Contestant
    from benchmarks.peers.work import Work

_START_LIMIT_S = 600.0
"""For the imports and the weights, which are quantized on the first start."""


class PeerError(Exception):
    """A contestant cannot run; the text says why."""


class ContestantProcess:
    """Does work in another process, which is started again when it dies or takes too long."""

    def __init__(self, make: Callable[[], Contestant]) -> None:
        """Start the process.

        Args:
            make: makes the contestant there; must be picklable.

        Raises:
            PeerError: the contestant cannot be made.
        """
        self._make = make
        self._connection, self._process = self._start()

    def do(self, work: Work) -> Outcome:
        """Have work done; what the process does not survive, or not in time, counts as refused.

        Raises:
            PeerError: the work failed with an error that says nothing of the work, such as too little memory.
        """
        refusal = "it crashed"
        with suppress(EOFError, OSError):
            self._connection.send(work)
            if self._connection.poll(work.time_limit_s):
                return _checked(self._connection.recv())
            refusal = f"it takes more than {work.time_limit_s:g} s"
        self._end(wait_s=0)
        self._connection, self._process = self._start()
        return Outcome(0, 0.0, refusal=refusal)

    def close(self) -> None:
        """End the process."""
        self._end(wait_s=5)

    def _end(self, *, wait_s: float) -> None:
        self._connection.close()
        self._process.join(timeout=wait_s)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _start(self) -> tuple[Connection[Any, Any], SpawnProcess]:
        context = multiprocessing.get_context("spawn")
        connection, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._make), daemon=True)
        process.start()
        theirs.close()
        try:
            answer = connection.recv() if connection.poll(_START_LIMIT_S) else "it does not start"
        except EOFError:
            answer = "it crashed when it started"
        if answer is not None:
            process.kill()
            process.join()
            raise PeerError(answer)
        return connection, process


def _checked(answer: Outcome | str) -> Outcome:
    if isinstance(answer, str):
        raise PeerError(answer)
    return answer


def _serve(connection: Connection[Any, Any], make: Callable[[], Contestant]) -> None:
    """Make the contestant and do work until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    try:
        contestant = make()
    except ImportError as error:
        connection.send(f"not installed: {error}")
        return
    except Exception as error:  # told to the one who asked
        connection.send(f"{type(error).__name__}: {error}")
        return
    connection.send(None)
    with suppress(EOFError, OSError):
        while True:
            work: Work = connection.recv()
            try:
                connection.send(work.do(contestant))
            except Exception as error:  # likewise
                connection.send(f"{type(error).__name__}: {error}")
    contestant.close()
