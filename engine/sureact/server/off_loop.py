"""Work that would hold up the streams of others if the event loop did it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

LARGE_BYTES = 64 * 2**10
"""Bodies beyond that take more than a few milliseconds to read: four million bytes up to 200."""
_large_bodies = ThreadPoolExecutor(1, thread_name_prefix="sureact-body")
"""One thread: several would take the interpreter from the loop, and from the engine, that much more often."""


async def read_off_loop(num_bytes: int, function: Callable[..., T], *args: Any) -> T:
    """Read something of a body of that many bytes: at once if it is small, else on a thread."""
    if num_bytes <= LARGE_BYTES:
        return function(*args)
    return await asyncio.get_running_loop().run_in_executor(_large_bodies, function, *args)


async def on_thread(function: Callable[..., T], *args: Any) -> T:
    """Like `asyncio.to_thread`, but who is cancelled waits for the thread, and keeps the request's seat until then.

    Else clients that ask for much and leave at once would have any number of threads at work.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *args))
    try:
        return await asyncio.shield(work)
    finally:
        if not work.done():
            await asyncio.wait([work])
