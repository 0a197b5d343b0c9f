"""Runs a blocking call on a thread that steps back for the engine if it computes, and can be left behind."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import TypeVar

from sureact.agent.cancellation import Cancellation
from sureact.agent.tool_priority import steps_back
from sureact.errors import RequestAbortedError, ToolExecutionError, ToolTimeoutError

_T = TypeVar("_T")

MAX_LEFT_BEHIND = 16
"""Calls of one tool that may still run after they were given up; with so many, no other call of it is begun."""

_FIRST_LOOK_S, _MAX_LOOK_S = 0.1, 1.0


class LeftBehind:
    """Counts the calls of a tool that were given up and still run: Python cannot end a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def add(self, number: int) -> None:
        """Count calls in, or out with a negative number."""
        with self._lock:
            self.count += number

    def refuse_more(self) -> None:
        """Judge whether another call may begin.

        Raises:
            ToolExecutionError: too many that were given up still run.
        """
        if self.count >= MAX_LEFT_BEHIND:
            raise ToolExecutionError(f"{self.count} earlier calls were given up and still run; no other is begun")


class _Call:
    """One call on its thread."""

    def __init__(self, left_behind: LeftBehind) -> None:
        self.outcome: Future[object] = Future()
        self._left_behind = left_behind
        self._lock = threading.Lock()
        self._has_ended = False
        self._is_given_up = False

    def work(self, function: Callable[[], object]) -> None:
        try:
            result = function()
        except BaseException as error:  # raised again by the thread that waits
            self._settle(error=error)
        else:
            self._settle(result)
        with self._lock:
            self._has_ended = True
            if self._is_given_up:
                self._left_behind.add(-1)

    def give_up(self) -> None:
        with self._lock:
            if not self._has_ended and not self._is_given_up:
                self._is_given_up = True
                self._left_behind.add(1)

    def abort(self) -> None:
        self._settle(error=RequestAbortedError("The run was cancelled while a tool ran."))

    def _settle(self, result: object = None, error: BaseException | None = None) -> None:
        with suppress(InvalidStateError):  # whoever was first decides
            if error is None:
                self.outcome.set_result(result)
            else:
                self.outcome.set_exception(error)


def run_on_thread(
    function: Callable[[], _T],
    timeout_s: float | None,
    cancellation: Cancellation | None,
    left_behind: LeftBehind,
) -> _T:
    """Run a function on a daemon thread, with the caller's context variables, and wait for its result.

    Raises:
        ToolTimeoutError: it did not end in time; its thread goes on alone.
        RequestAbortedError: `cancellation` was cancelled; its thread goes on alone.
        ToolExecutionError: too many calls that were given up still run.
    """
    left_behind.refuse_more()
    call = _Call(left_behind)
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(call.work, function), name="sureact-tool", daemon=True)
    remove = cancellation.add_callback(call.abort) if cancellation else None
    try:
        if cancellation:
            cancellation.raise_if_cancelled()
        thread.start()
        return _result(call.outcome, thread, timeout_s)  # pyright: ignore[reportReturnType]
    except FutureTimeoutError as error:
        if call.outcome.done():  # just now, or the function itself raised this
            return call.outcome.result()  # pyright: ignore[reportReturnType]
        call.give_up()
        raise ToolTimeoutError(
            f"no result within {round(timeout_s or 0, 3):g} s; the call was left behind and may still be running"
        ) from error
    except BaseException:  # an error of the function, whose thread ends; or an interrupt or a cancellation
        call.give_up()
        raise
    finally:
        if remove:
            remove()


def _result(outcome: Future[object], thread: threading.Thread, timeout_s: float | None) -> object:
    """Wait for the outcome, and look now and then whether the thread is to step back."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    look_s = _FIRST_LOOK_S
    while deadline is None or time.monotonic() + look_s < deadline:
        if wait([outcome], look_s).done or steps_back(thread.native_id or 0):
            break
        look_s = min(2 * look_s, _MAX_LOOK_S)
    return outcome.result(None if deadline is None else max(deadline - time.monotonic(), 0.0))
