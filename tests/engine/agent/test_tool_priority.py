import os
import sys
import threading

import pytest

from sureact.agent.tool_priority import TOOL_NICENESS, lower_thread_priority

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a niceness for single threads")


def own_niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def test_a_thread_steps_back_alone_and_what_it_starts_with_it():
    seen: list[int] = []
    before = own_niceness()

    def work() -> None:
        lower_thread_priority()
        lower_thread_priority()
        seen.append(own_niceness())
        inner = threading.Thread(target=lambda: seen.append(own_niceness()))
        inner.start()
        inner.join()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [TOOL_NICENESS] * 2
    assert own_niceness() == before


def test_where_priorities_are_forbidden_nothing_happens(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refuse)
    lower_thread_priority()
