import threading
import time

import pytest

from sureact.agent.cancellation import Cancellation
from sureact.errors import RequestAbortedError


def test_callbacks_run_once_and_late_ones_at_once():
    cancellation = Cancellation()
    heard: list[str] = []
    cancellation.add_callback(lambda: heard.append("early"))
    cancellation.add_callback(lambda: heard.append("removed"))()
    assert not cancellation.is_cancelled
    cancellation.cancel()
    cancellation.cancel()
    assert cancellation.is_cancelled
    cancellation.add_callback(lambda: heard.append("late"))
    assert heard == ["early", "late"]


def test_a_pause_ends_when_it_is_cancelled():
    cancellation = Cancellation()
    threading.Timer(0.05, cancellation.cancel).start()
    start = time.monotonic()
    with pytest.raises(RequestAbortedError):
        cancellation.sleep(30)
    assert time.monotonic() - start < 10


def test_nothing_is_raised_before():
    cancellation = Cancellation()
    cancellation.raise_if_cancelled()
    cancellation.sleep(0.001)
