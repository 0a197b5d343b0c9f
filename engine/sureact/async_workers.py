"""The threads that do for an event loop what would block it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_MAX_THREADS = 8
"""Constraints that may compile, which may take seconds, before a request waits for a thread."""


class AsyncWorkers:
    """A few threads of an engine's own, started as needed: those of the event loop may be busy with a user's tools."""

    def __init__(self) -> None:
        # None: the event loop's own threads, for what is left to do after `close`, such as closing a session.
        self._executor: ThreadPoolExecutor | None = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="sureact-async")

    def start(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
        """Call a function on a thread, in the context of the caller; return what becomes its result."""
        call = partial(contextvars.copy_context().run, function, *args, **kwargs)
        return asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function on a thread, and wait for its result."""
        return await self.start(function, *args, **kwargs)

    def close(self) -> None:
        """End the threads once they have done what was started; return at once."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False)
