"""An event loop on a thread of its own, so that synchronous code can run coroutines wherever it is itself run."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from sureact.agent.cancellation import Cancellation
from sureact.errors import RequestAbortedError, ToolTimeoutError

_T = TypeVar("_T")

# How long a task that was cancelled may take to end before its loop is taken for blocked.
_GRACE_S = 1.0


class EventLoopThread:
    """An event loop that runs on a daemon thread until it is closed."""

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._nested: EventLoopThread | None = None
        self.is_usable = True
        """Whether it takes more coroutines: it is not closed, and none of them blocks it."""
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

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Start a coroutine on the loop, in a copy of the caller's context variables."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(
        self,
        coroutine: Coroutine[Any, Any, _T],
        timeout_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> _T:
        """Run a coroutine and wait for its result, from any thread but this loop's own.

        Raises:
            ToolTimeoutError: it did not end in time. It was cancelled, or left behind if it does not heed that.
            RequestAbortedError: `cancellation` was cancelled; so was the coroutine.
        """
        future = self.submit(coroutine)
        remove = cancellation.add_callback(future.cancel) if cancellation else None
        try:
            return future.result(timeout_s)
        except FutureTimeoutError as error:
            if future.done():  # just now, or the coroutine itself raised this
                return future.result()
            ending = (
                "the call was cancelled" if self._give_up(future) else "it blocks its event loop and was left behind"
            )
            raise ToolTimeoutError(f"no result within {round(timeout_s or 0, 3):g} s; {ending}") from error
        except CancelledError as error:
            if cancellation is None or not cancellation.is_cancelled:
                raise
            self._give_up(future)
            raise RequestAbortedError("The run was cancelled while a tool ran.") from error
        except BaseException:  # an interrupt of the thread that waits
            future.cancel()
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

    def _give_up(self, future: Future[Any]) -> bool:
        """Cancel, and return whether the loop still turns."""
        future.cancel()
        turned = threading.Event()
        self._loop.call_soon_threadsafe(turned.set)
        if not turned.wait(_GRACE_S):
            self.is_usable = False
        return self.is_usable

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
    call; one that a tool blocks, or that a fork left without its thread, is replaced.
    """
    with _lock:
        if not _shared or _shared[0][0] != os.getpid() or not _shared[0][1].is_usable:
            _shared[:] = [(os.getpid(), EventLoopThread("sureact-async-tools"))]
        found = _shared[0][1]
    while found.is_current:
        found = found.nested
    return found
