import contextvars
import os
import sys
import threading
import time

import pytest

from sureact.agent.cancellation import Cancellation
from sureact.agent.tool_priority import TOOL_NICENESS
from sureact.agent.tool_thread import MAX_LEFT_BEHIND, LeftBehind, run_on_thread
from sureact.errors import RequestAbortedError, ToolExecutionError, ToolTimeoutError

NUMBER: contextvars.ContextVar[int] = contextvars.ContextVar("NUMBER", default=0)


def test_a_result_comes_back_and_context_variables_go_along():
    token = NUMBER.set(3)
    assert run_on_thread(NUMBER.get, 5, None, LeftBehind()) == 3
    NUMBER.reset(token)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of single threads")
def test_a_call_that_computes_steps_back_for_others():
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, 0)

    def compute() -> int:
        deadline = time.monotonic() + 30
        while niceness() != TOOL_NICENESS and time.monotonic() < deadline:
            pass
        return niceness()

    own = niceness()
    assert run_on_thread(compute, 60, None, LeftBehind()) == TOOL_NICENESS
    assert run_on_thread(niceness, None, None, LeftBehind()) == own


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("its own"), SystemExit(2), KeyboardInterrupt()])
def test_what_the_function_raises_is_raised(error: BaseException):
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        run_on_thread(fail, 5, None, LeftBehind())
    assert caught.value is error


def test_what_hangs_is_left_behind_and_counted_until_it_ends():
    release = threading.Event()
    left_behind = LeftBehind()
    with pytest.raises(ToolTimeoutError, match=r"within 0\.05 s; the call was left behind"):
        run_on_thread(lambda: release.wait(30), 0.05, None, left_behind)
    counts = [left_behind.count]
    release.set()
    for _ in range(500):
        counts.append(left_behind.count)
        time.sleep(0.0 if counts[-1] == 0 else 0.01)
    assert (counts[0], counts[-1]) == (1, 0)


def test_a_function_that_always_hangs_is_called_no_more():
    left_behind = LeftBehind()
    left_behind.add(MAX_LEFT_BEHIND)
    with pytest.raises(ToolExecutionError, match="still run; no other is begun"):
        run_on_thread(lambda: None, 5, None, left_behind)


def test_a_cancellation_gives_it_up():
    release = threading.Event()
    cancellation = Cancellation()
    threading.Timer(0.05, cancellation.cancel).start()
    with pytest.raises(RequestAbortedError):
        run_on_thread(lambda: release.wait(30), None, cancellation, LeftBehind())
    release.set()


def test_what_is_cancelled_before_does_not_begin():
    cancellation = Cancellation()
    cancellation.cancel()
    calls: list[int] = []
    with pytest.raises(RequestAbortedError):
        run_on_thread(lambda: calls.append(1), None, cancellation, LeftBehind())
    assert calls == []
