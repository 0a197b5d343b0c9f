"""Runs blocking code for an event loop, on a thread of its own, and ends it when the task that waits is cancelled."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from sureact.agent.cancellation import Cancellation
from sureact.agent.module_scope import cancelled_by, current_cancellation

_T = TypeVar("_T")


async def call_on_thread(function: Callable[[], _T], *, gives_up_tools: bool = False) -> _T:
    """Call a function on a new thread, in a copy of the caller's context.

    When the task is cancelled, the sessions that the function opened are closed, which ends what it generates; the
    thread is not waited for, as a tool may hang on it.

    Args:
        function: what to call.
        gives_up_tools: have agents run tools so that they are given up when the task is cancelled.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[_T] = loop.create_future()
    cancellation = Cancellation(gives_up_tools=gives_up_tools)
    outer = current_cancellation()
    forget = outer.add_callback(cancellation.cancel) if outer is not None else None

    def work() -> None:
        try:
            with cancelled_by(cancellation):
                value = function()
        except BaseException as error:  # raised again by the task that waits
            reason = RuntimeError("The call raised StopIteration.") if isinstance(error, StopIteration) else error
            deliver(lambda: result.set_exception(reason))
        else:
            deliver(lambda: result.set_result(value))

    def deliver(settle: Callable[[], None]) -> None:
        # The loop may have ended without waiting for a cancelled call.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if result.done() else settle())

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="sureact-acall", daemon=True).start()
    try:
        return await result
    except asyncio.CancelledError:
        # Closing a session may wait for a step of the engine, which must not hold up the loop.
        threading.Thread(target=cancellation.cancel, name="sureact-cancel", daemon=True).start()
        raise
    finally:
        if forget is not None:
            forget()
