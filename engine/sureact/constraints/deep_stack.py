"""Calls that nest more deeply than the stack of the thread that makes them has room for."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, TypeVar

from sureact.errors import OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

_BYTES_PER_PYTHON_CALL = 8 << 10
_MAX_PYTHON_CALLS = 1_000_000
_ROOM_BYTES = 256 << 20
"""It takes a dozen calls to prepare or to judge one level, and less than a thousand levels are read."""
_SETTINGS = threading.Lock()
"""Held while a thread is started: the size of its stack is set for the whole process."""


def call_with_room(function: Callable[[], _T]) -> _T:
    """Call a function here and, where Python's calls nest too deeply for that, once more on a deep stack."""
    try:
        return function()
    except RecursionError:
        return call_on_deep_stack(function, stack_bytes=_ROOM_BYTES)


def call_on_deep_stack(function: Callable[[], _T], *, stack_bytes: int) -> _T:
    """Call a function on a thread of its own and wait for it; what it raises is raised here.

    While it runs, Python lets every thread nest as many calls as this stack has room for. Memory of the stack that is
    not reached is not used.

    Args:
        function: takes no time that an interrupt would have to cut short.
        stack_bytes: size of the stack.

    Raises:
        OutOfMemoryError: the system gives no thread such a stack.
    """
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # handed to the caller, whatever it is
            errors.append(error)

    with _SETTINGS:
        limit, size = sys.getrecursionlimit(), threading.stack_size(stack_bytes)
        thread = threading.Thread(target=run, name="sureact-deep-stack")
        try:
            sys.setrecursionlimit(max(limit, min(stack_bytes // _BYTES_PER_PYTHON_CALL, _MAX_PYTHON_CALLS)))
            thread.start()
            thread.join()
        except RuntimeError as error:
            raise OutOfMemoryError(f"No thread with a stack of {stack_bytes >> 20:,} MiB can be started.") from error
        finally:
            threading.stack_size(size)
            sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return results[0]
