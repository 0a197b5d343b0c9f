import threading
from typing import Any

import pytest

from sureact.agent.call_policy import CallPolicy
from sureact.agent.cancellation import Cancellation
from sureact.agent.module_scope import cancelled_by
from sureact.errors import ConfigError, RequestAbortedError, ToolTimeoutError


class Flaky:
    """Fails a number of times."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "there"


def policy(**options: Any) -> CallPolicy:
    options.setdefault("backoff_s", 0)
    return CallPolicy(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"timeout_s": 0},
        {"timeout_s": -1.0},
        {"timeout_s": float("nan")},
        {"timeout_s": float("inf")},
        {"timeout_s": "2"},
        {"timeout_s": True},
        {"retries": -1},
        {"retries": 1.5},
        {"retries": True},
        {"retries": 21},
        {"retry_on": ValueError},
        {"retry_on": [ValueError]},
        {"retry_on": (KeyboardInterrupt,)},
        {"retry_on": ("ValueError",)},
        {"backoff_s": -0.1},
        {"backoff_s": float("nan")},
        {"backoff_s": None},
    ],
    ids=str,
)
def test_what_is_not_allowed_is_refused_by_name(options: dict[str, Any]):
    with pytest.raises(ConfigError, match=f"{next(iter(options))} is"):
        CallPolicy(**options)


def test_without_retries_there_is_one_attempt():
    flaky = Flaky(ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        policy().run(flaky)
    assert flaky.calls == 1


def test_errors_that_may_pass_are_tried_again():
    flaky = Flaky(ConnectionError("gone"), TimeoutError("slow"))
    assert policy(retries=2).run(flaky) == "there"
    assert flaky.calls == 3


def test_the_last_error_tells_how_many_attempts_there_were():
    flaky = Flaky(ConnectionError("1"), ConnectionError("2"), ConnectionError("3"))
    with pytest.raises(ConnectionError, match="2") as caught:
        policy(retries=1).run(flaky)
    assert caught.value.__notes__ == ["2 attempts"]


def test_other_errors_are_raised_at_once():
    flaky = Flaky(ValueError("wrong"))
    with pytest.raises(ValueError, match="wrong"):
        policy(retries=5).run(flaky)
    assert flaky.calls == 1


def test_which_errors_are_tried_again_can_be_named():
    assert policy(retries=1, retry_on=(LookupError,)).run(Flaky(KeyError("a"))) == "there"
    with pytest.raises(ConnectionError):
        policy(retries=1, retry_on=(LookupError,)).run(Flaky(ConnectionError()))


def test_a_call_that_was_given_up_is_tried_again_only_if_that_is_named():
    with pytest.raises(ToolTimeoutError):
        policy(retries=1).run(Flaky(ToolTimeoutError("slow")))
    assert policy(retries=1, retry_on=(ToolTimeoutError,)).run(Flaky(ToolTimeoutError("slow"))) == "there"


def test_pauses_double_up_to_a_limit():
    assert [CallPolicy(backoff_s=1).pause_s(index) for index in (0, 1, 2, 10)] == [1, 2, 4, 30]


def test_a_pause_can_be_cancelled():
    cancellation = Cancellation()
    threading.Timer(0.05, cancellation.cancel).start()
    with pytest.raises(RequestAbortedError):
        policy(retries=1, backoff_s=30).run(Flaky(ConnectionError()), cancellation)


def test_a_cancelled_attempt_is_not_tried_again():
    flaky = Flaky(RequestAbortedError("cancelled"))
    with pytest.raises(RequestAbortedError):
        policy(retries=3, retry_on=(Exception,)).run(flaky)
    assert flaky.calls == 1


def test_nothing_is_tried_again_once_the_module_is_cancelled():
    cancellation, attempts = Cancellation(), list[int]()

    def attempt() -> None:
        attempts.append(1)
        cancellation.cancel()
        raise ConnectionError

    with cancelled_by(cancellation), pytest.raises(RequestAbortedError):
        CallPolicy(retries=3, backoff_s=0).run(attempt)
    assert len(attempts) == 1
