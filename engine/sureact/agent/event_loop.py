"""An event loop on a thread of its own, so that synchronous code can run coroutines wherever it is itself run."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any, TypeVar

from sureact.agent.cancellation import Cancellation
from sureact.agent.tool_thread import LeftBehind
from sureact.errors import RequestAbortedError, ToolTimeoutError

_T = TypeVar("_T")

# How long a task that was cancelled may take to end before it is left behind.
_GRACE_S = 1.0
# How long a loop may be busy before another one takes what comes next.
_PATIENCE_S = 0.1


class _Call:
    """A coroutine on its way: what it gives, and whether it has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self.outcome: Future[Any] = Future()
        self.has_ended = threading.Event()
        self.task: asyncio.Task[Any] | None = None
        self._loop = loop
        self._coroutine = coroutine
        self._name = name
        self._lock = threading.Lock()
        self._left_behind: LeftBehind | None = None
        loop.call_soon_threadsafe(self._begin)  # in a copy of the caller's context variables

    def cancel(self) -> None:
        self.outcome.cancel()
        self._loop.call_soon_threadsafe(self._cancel_task)

    def leave_behind(self, left_behind: LeftBehind) -> None:
        """Count the call until it ends after all."""
        with self._lock:
            if not self.has_ended.is_set():
                self._left_behind = left_behind
                left_behind.add(1)

    def _begin(self) -> None:
        if self.outcome.cancelled():
            self._coroutine.close()
            self._end()
            return
        self.task = self._loop.create_task(self._coroutine, name=self._name)
        self.task.add_done_callback(self._settle)

    def _cancel_task(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def _settle(self, task: asyncio.Task[Any]) -> None:
        self._end()
        error = None if task.cancelled() else task.exception()
        with suppress(InvalidStateError):  # it was given up
            if task.cancelled():
                self.outcome.cancel()
            elif error is not None:
                self.outcome.set_exception(error)
            else:
                self.outcome.set_result(task.result())

    def _end(self) -> None:
        with self._lock:
            self.has_ended.set()
            if self._left_behind is not None:
                self._left_behind.add(-1)


class EventLoopThread:
    """An event loop that runs on a daemon thread until it is closed."""

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._nested: EventLoopThread | None = None
        self.is_usable = True
        """Whether it takes more coroutines: it is not closed."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def nested(self) -> EventLoopThread:
        """The loop for what a coroutine of this one calls in a blocking way, which would else wait for itself."""
        if self._nested is None or not self._nested.is_usable:
            self._nested = EventLoopThread(f"{self._thread.name}-nested")
        return self._nested

    @property
    def is_current(self) -> bool:
        """Whether the caller is on this loop's thread."""
        return threading.current_thread() is self._thread

    def turn(self) -> threading.Event:
        """Return what is set as soon as the loop comes to it; a coroutine that blocks the loop keeps it from that."""
        turned = threading.Event()
        self._loop.call_soon_threadsafe(turned.set)
        return turned

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Start a coroutine on the loop, in a copy of the caller's context variables."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(
        self,
        coroutine: Coroutine[Any, Any, _T],
        timeout_s: float | None = None,
        cancellation: Cancellation | None = None,
        *,
        name: str = "a coroutine",
        left_behind: LeftBehind | None = None,
    ) -> _T:
        """Run a coroutine and wait for its result, from any thread but this loop's own.

        Args:
            coroutine: what to run.
            timeout_s: most seconds.
            cancellation: gives it up.
            name: what it is called where it keeps others from running.
            left_behind: counts it where it was given up and does not end.

        Raises:
            ToolTimeoutError: it did not end in time. It was cancelled, or left behind if it does not heed that.
            RequestAbortedError: `cancellation` was cancelled; so was the coroutine.
        """
        call = _Call(self._loop, coroutine, name)
        remove = cancellation.add_callback(call.cancel) if cancellation else None
        try:
            return call.outcome.result(timeout_s)
        except FutureTimeoutError as error:
            if call.outcome.done():  # just now, or the coroutine itself raised this
                return call.outcome.result()
            ending = self._give_up(call, left_behind)
            raise ToolTimeoutError(f"no result within {round(timeout_s or 0, 3):g} s; {ending}") from error
        except CancelledError as error:
            if cancellation is None or not cancellation.is_cancelled:
                raise
            self._give_up(call, left_behind)
            raise RequestAbortedError("The run was cancelled while a tool ran.") from error
        except BaseException:  # an interrupt of the thread that waits
            call.cancel()
            raise
        finally:
            if remove:
                remove()

    def close(self) -> None:
        """Cancel what runs and end the thread."""
        if not self.is_usable and not self._thread.is_alive():
            return
        self.is_usable = False
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_GRACE_S)

    def _give_up(self, call: _Call, left_behind: LeftBehind | None) -> str:
        """Cancel a call, and return what became of it."""
        call.cancel()
        if call.has_ended.wait(_GRACE_S):
            return "the call was cancelled"
        if left_behind is not None:
            call.leave_behind(left_behind)
        if self.turn().wait(_PATIENCE_S):
            return "it does not end when it is cancelled, and was left behind"
        working = asyncio.current_task(self._loop)
        if working is None or working is call.task:
            return "it blocks its event loop and was left behind"
        return f"{working.get_name()} blocks the event loop of async tools, and the call was given up"

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


_lock = threading.Lock()
_shared: list[tuple[int, EventLoopThread]] = []


def shared_event_loop() -> EventLoopThread:
    """Return the loop on which async tools run when synchronous code calls them.

    It is one, so that a tool's connections are used on the loop that they were opened on. It starts with the first
    call; while a tool blocks it, another one takes what comes, and a fork has its own.
    """
    with _lock:
        _shared[:] = [(owner, loop) for owner, loop in _shared if owner == os.getpid() and loop.is_usable]
        found = _one_that_turns([loop for _, loop in _shared])
        if found is None:
            found = EventLoopThread("sureact-async-tools")
            _shared.append((os.getpid(), found))
    while found.is_current:
        found = found.nested
    return found


def _one_that_turns(loops: list[EventLoopThread]) -> EventLoopThread | None:
    turns = [(loop, loop.turn()) for loop in loops]
    for index, (loop, turned) in enumerate(turns):
        if loop.is_current or turned.wait(0.0 if index else _PATIENCE_S):  # all have the time of the first one
            return loop
    return None
