"""One attempt to call a tool: on the caller's thread, on another that can be left behind, or on an event loop."""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from sureact.agent.event_loop import shared_event_loop
from sureact.agent.module_scope import current_cancellation
from sureact.agent.tool_thread import LeftBehind, run_on_thread

if TYPE_CHECKING:
    from sureact.agent.cancellation import Cancellation

Convert = Callable[[Mapping[str, object]], dict[str, Any]]
Render = Callable[[object], object]

Attempt = Callable[[Mapping[str, object], Render | None, float | None, "Cancellation | None"], object]
"""Calls a tool once: with arguments, a renderer, seconds that it may take, and what gives it up."""

MAX_ITEMS = 1000
"""Most items that are read of a result that is an iterator."""


class ToolAttempt:
    """Calls a function. One that is async, or returns an awaitable, is waited for."""

    def __init__(self, func: Callable[..., object], described: Callable[..., object], convert: Convert) -> None:
        """Take the function.

        Args:
            func: what is called.
            described: the function as the user wrote it, which tells whether it is async.
            convert: turns parsed JSON into keyword arguments.
        """
        self._func = func
        self._convert = convert
        self._left_behind = LeftBehind()
        self._name = getattr(described, "__name__", type(described).__name__)
        self._is_async = inspect.iscoroutinefunction(described) or inspect.iscoroutinefunction(
            getattr(type(described), "__call__", None)  # noqa: B004  the method is wanted, not whether there is one
        )

    def of(self, func: Callable[..., object], convert: Convert) -> ToolAttempt:
        """Return the same for another function; what was left behind is counted together."""
        attempt = ToolAttempt(func, func, convert)
        attempt._is_async, attempt._left_behind, attempt._name = self._is_async, self._left_behind, self._name
        return attempt

    def __call__(
        self,
        args: Mapping[str, object],
        render: Render | None,
        timeout_s: float | None,
        cancellation: Cancellation | None,
    ) -> object:
        """Call the function; see `Tool.run`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        finish = render or _unchanged
        self._left_behind.refuse_more()
        if self._is_async:
            pending = self._func(**self._convert(args))
        else:

            def work() -> object:
                result = self._func(**self._convert(args))
                return result if _is_pending(result) else finish(result)

            # A run that can be cancelled works on a thread that was started for it: none that a function could need.
            if timeout_s is None and cancellation is None and current_cancellation() is None:
                pending = work()
            else:
                pending = run_on_thread(work, timeout_s, cancellation, self._left_behind)
        if not _is_pending(pending):
            return pending
        left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        loop, coroutine = shared_event_loop(), _finished(pending, finish)
        return loop.run(coroutine, left_s, cancellation, name=self._name, left_behind=self._left_behind)


def _is_pending(result: object) -> bool:
    return inspect.isawaitable(result) or isinstance(result, AsyncIterator)


async def _finished(pending: Any, finish: Render) -> object:
    return finish(await pending if isinstance(pending, Awaitable) else iter(await _items(pending)))


async def _items(source: AsyncIterator[object]) -> list[object]:
    """Read one item more than are shown, so that it is seen whether there are more."""
    items: list[object] = []
    try:
        async for item in source:
            items.append(item)
            if len(items) > MAX_ITEMS:
                break
    finally:
        if inspect.isasyncgen(source):
            await source.aclose()
    return items


def first_items(source: Any) -> tuple[list[object], bool]:
    """Read the first items of an iterator, close it if it is a generator, and say whether there were more."""
    try:
        items = list(islice(source, MAX_ITEMS + 1))
    finally:
        if inspect.isgenerator(source):
            source.close()
    return items[:MAX_ITEMS], len(items) > MAX_ITEMS


def _unchanged(result: object) -> object:
    return result
