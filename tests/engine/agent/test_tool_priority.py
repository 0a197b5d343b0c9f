import os
import sys
import threading
import time
from collections.abc import Callable

import pytest

from sureact.agent.tool_priority import COMPUTES_AFTER_S, TOOL_NICENESS, steps_back

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of single threads")


def compute() -> None:
    while time.thread_time() < 2 * COMPUTES_AFTER_S:
        pass


def looked_at(work: Callable[[], object]) -> tuple[bool, int]:
    """Look at a thread that has done its work; return what was found, and its niceness then."""
    worked, looked, niceness = threading.Event(), threading.Event(), -1

    def run() -> None:
        nonlocal niceness
        work()
        worked.set()
        looked.wait()
        niceness = os.getpriority(os.PRIO_PROCESS, 0)

    thread = threading.Thread(target=run)
    thread.start()
    worked.wait()
    assert thread.native_id is not None
    found = steps_back(thread.native_id)
    looked.set()
    thread.join()
    return found, niceness


def test_a_thread_that_computes_steps_back_alone():
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert looked_at(compute) == (True, TOOL_NICENESS)
    assert looked_at(lambda: None) == (False, own)
    assert os.getpriority(os.PRIO_PROCESS, 0) == own


def test_a_thread_that_is_gone_and_a_sandbox_without_priorities_need_no_other_look(monkeypatch: pytest.MonkeyPatch):
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert thread.native_id is not None
    assert steps_back(thread.native_id)

    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refuse)
    assert looked_at(compute) == (True, os.getpriority(os.PRIO_PROCESS, 0))
