"""Ends what runs, from another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sureact.errors import RequestAbortedError


class Cancellation:
    """Whether something was cancelled, and what to do at that moment. May be used from many threads."""

    def __init__(self, *, gives_up_tools: bool = False) -> None:
        """Say what it ends.

        Args:
            gives_up_tools: whether tools that run are given up too. They run on threads of their own then.
        """
        self.gives_up_tools = gives_up_tools
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._next_key = 0

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Run the callbacks, once; those that are added later run at once."""
        with self._lock:
            self._event.set()
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    def add_callback(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Have `callback` called when `cancel` is, on its thread.

        Returns:
            What takes the callback away again.
        """
        with self._lock:
            key = self._next_key
            self._next_key += 1
            is_late = self.is_cancelled
            if not is_late:
                self._callbacks[key] = callback
        if is_late:
            callback()

        def remove() -> None:
            with self._lock:
                self._callbacks.pop(key, None)

        return remove

    def sleep(self, seconds: float) -> None:
        """Wait, or less if this is cancelled meanwhile.

        Raises:
            RequestAbortedError: it is cancelled.
        """
        self._event.wait(seconds)
        self.raise_if_cancelled()

    def raise_if_cancelled(self) -> None:
        """Raise what ends a cancelled run.

        Raises:
            RequestAbortedError: it is cancelled.
        """
        if self.is_cancelled:
            raise RequestAbortedError("The run was cancelled.")
