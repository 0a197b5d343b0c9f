import json
from dataclasses import asdict
from typing import Any

import pytest

from sureact.agent import token_limits
from sureact.agent.prediction import RunUsage
from sureact.agent.token_limits import RunBudget, TokenLimits
from sureact.errors import ConfigError


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(token_limits, "time", clock)
    return clock


SMALL: dict[str, Any] = {"thought": 10, "call": 20, "outputs": 30}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kept_observation": 0}, "kept_observation is 0"),
        ({"thought": "5"}, "TokenLimits.thought is '5'; it must be a whole number, at least 1"),
        ({"call": True}, "TokenLimits.call is True"),
        ({"outputs": 2.0}, "TokenLimits.outputs is 2.0"),
        ({"run": "9"}, "TokenLimits.run is '9'"),
        ({**SMALL, "run": 59}, "run is 59; one step and the outputs take up to 60 tokens"),
        ({"max_seconds": 0}, "max_seconds"),
        ({"max_seconds": float("inf")}, "max_seconds"),
        ({"max_seconds": "9"}, "max_seconds"),
        ({"on_max_tokens": "stop"}, "on_max_tokens is 'stop'; it must be 'cut' or 'close'"),
        ({"runaway": {}}, "runaway is {}"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(options: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        TokenLimits(**options)


def test_recorded_limits_are_read_and_old_ones_cut_no_observation_again():
    old = TokenLimits.recorded({"limits": {"thought": 1, "call": 2, "observation": 900, "outputs": 4}})
    unended: dict[str, Any] = {"on_max_tokens": "cut", "runaway": None}
    assert old == TokenLimits(thought=1, call=2, observation=900, outputs=4, kept_observation=900, **unended)
    assert TokenLimits.recorded({"limits": {"kept_observation": 5, "observation": 9, "later": 1}}).kept_observation == 5


@pytest.mark.parametrize("limits", [TokenLimits(), TokenLimits(runaway=None, on_max_tokens="cut", run=9000)])
def test_what_a_trace_records_is_read_back(limits: TokenLimits):
    assert TokenLimits.recorded({"limits": json.loads(json.dumps(asdict(limits)))}) == limits


def test_a_step_is_begun_only_if_it_and_the_outputs_fit():
    usage = RunUsage()
    budget = RunBudget(TokenLimits(**SMALL, run=100), usage)
    assert budget.reason_to_end() is None
    usage.completion_tokens = 40
    assert budget.reason_to_end() is None
    assert budget.has_tokens(30)
    assert not budget.has_tokens(31)
    usage.completion_tokens = 41
    assert budget.reason_to_end() == "token_budget"


def test_no_step_is_begun_that_would_go_beyond_the_seconds_if_it_took_as_long_as_the_longest(clock: Clock):
    budget = RunBudget(TokenLimits(max_seconds=10), RunUsage())
    clock.now = 1
    assert budget.reason_to_end() is None
    clock.now = 5  # the step took 4 s
    assert budget.reason_to_end() is None
    clock.now = 5.5
    assert budget.reason_to_end() is None
    clock.now = 6.5
    assert budget.reason_to_end() == "time_budget"
    assert not budget.is_out_of_time
    clock.now = 10
    assert budget.is_out_of_time
    assert budget.seconds == 10


def test_without_limits_nothing_ends(clock: Clock):
    budget = RunBudget(TokenLimits(), RunUsage(completion_tokens=10**9))
    clock.now = 1e9
    assert budget.reason_to_end() is None
    assert not budget.is_out_of_time
    assert budget.has_tokens(10**9)
