import json
import threading
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from sureact.agent.approval import Allow, Deny, Edit, PendingCall
from sureact.agent.events import CallStarted, Event
from sureact.agent.history import History
from sureact.agent.react_v2 import ReActV2
from sureact.agent.scripted_model import ScriptedModel, encode
from sureact.agent.signature import InputField, OutputField, Signature
from sureact.agent.token_limits import RunBudget, TokenLimits
from sureact.agent.tool import Tool
from sureact.errors import ConstraintStateError, SignatureError


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


def body(name: str, **args: object) -> str:
    return f'\n{{"name": "{name}", "arguments": {json.dumps(args)}}}\n</tool_call>'


def turn(*calls: str, thought: str = "Hm.", end: str | None = "") -> list[str]:
    """The texts of a turn."""
    first, *others = calls
    more = [text for call in others for text in ("<tool_call>", f"<tool_call>{call}")]
    return [f"{thought}\n", f"<tool_call>{first}", *more, *([] if end is None else [end])]


SUBMIT = turn(body("submit", answer=7), end=None)
FORCED = [SUBMIT[1]]


def agent(script: Sequence[str | BaseException], **options: Any) -> ReActV2:
    options = {"tools": [add, fail], "lm": ScriptedModel(script), **options}
    return ReActV2("question -> answer: int", **options)


def text_of(react: ReActV2) -> str:
    assert isinstance(react.lm, ScriptedModel)
    return react.lm.sessions[-1].text


def observations(history: History) -> list[list[str]]:
    return [[call.observation for call in turn.calls] for turn in history.turns]


def test_observations_stand_in_the_order_of_the_calls():
    react = agent([*turn(body("add", a=1), body("fail", reason="no"), body("add", a=2)), *SUBMIT])
    prediction = react(question="?")
    failed = "Execution error in fail: ValueError: no"
    assert observations(prediction.history)[0] == ["3", failed, "4"]
    assert [call.is_error for call in prediction.history.turns[0].calls] == [False, True, False]
    assert f"tool\n3<|im_end|>\n<|im_start|>tool\n{failed}<|im_end|>\n<|im_start|>tool\n4<|im_end|>" in text_of(react)


def test_the_calls_of_a_turn_run_side_by_side():
    barrier = threading.Barrier(2, timeout=20)

    def meet(who: str) -> str:
        """Wait for the other call."""
        barrier.wait()
        return who

    react = agent([*turn(body("meet", who="a"), body("meet", who="b")), *SUBMIT], tools=[meet])
    assert observations(react(question="?").history)[0] == ["a", "b"]


def test_a_turn_has_at_most_max_calls():
    react = agent([*turn(body("add", a=1), body("add", a=2), end=None), *SUBMIT], max_calls=2)
    assert observations(react(question="?").history)[0] == ["3", "4"]


def test_submit_cannot_follow_another_call():
    react = agent([*turn(body("add", a=1), body("submit", answer=3), end=None), *SUBMIT])
    assert observations(react(question="?").history)[0] == ["3"]
    assert text_of(react).count('"submit"') == 1


def test_a_call_that_repeats_an_earlier_turn_gives_its_observation_again():
    react = agent([*turn(body("add", a=1)), *turn(body("add", a=1), body("add", a=2)), *SUBMIT], on_repeat="remind")
    history = react(question="?").history
    (again, new) = history.turns[1].calls
    assert again.observation.startswith("This call repeats step 1 and was not run again. It gave: 3")
    assert (again.is_repeat, new.is_repeat, new.observation) == (True, False, "4")


def test_a_call_that_repeats_an_earlier_turn_is_masked_by_default():
    other = f"<tool_call>{body('submit', answer=7)}"
    react = agent([*turn(body("add", a=1)), *turn(body("add", a=1), end=None), other])
    prediction = react(question="?")
    assert (prediction.forced_by, len(prediction.history)) == (None, 2)
    assert text_of(react).count('"add"') == 1


def test_a_further_call_that_is_masked_is_cut_off():
    react = agent([*turn(body("add", a=1)), *turn(body("add", a=2), body("add", a=1), end=None), *SUBMIT])
    assert observations(react(question="?").history)[:2] == [["3"], ["4"]]


def test_a_call_of_an_earlier_message_may_be_made_again():
    react = agent([*turn(body("add", a=1)), *SUBMIT, *turn(body("add", a=1)), *SUBMIT])
    history = react(question="?").history
    assert observations(react(question="?", history=history).history)[2] == ["3"]


def test_a_call_that_repeats_its_own_turn_is_cut_off_and_ends_it():
    react = agent([*turn(body("add", a=1), body("add", a=1), end=None), *SUBMIT])
    assert observations(react(question="?").history)[0] == ["3"]
    assert text_of(react).count('"add"') == 1


def test_after_two_turns_of_repeats_submit_is_forced():
    react = agent(
        [*turn(body("add", a=1)), *turn(body("add", a=1)), *turn(body("add", a=1)), *FORCED], on_repeat="remind"
    )
    prediction = react(question="?")
    assert (prediction.termination_reason, prediction.forced_by) == ("forced_submit", "repeats")
    assert len(prediction.history) == 4


def test_repeats_run_if_they_are_to_or_their_tool_is_repeatable():
    script = [*turn(body("add", a=1), body("add", a=1)), *turn(body("add", a=1)), *turn(body("add", a=1)), *SUBMIT]
    for options in ({"on_repeat": "run"}, {"tools": [Tool(add, repeatable=True)]}):
        prediction = agent(script, **options)(question="?")
        assert observations(prediction.history)[:3] == [["3", "3"], ["3"], ["3"]]
        assert prediction.forced_by is None


def test_a_refused_call_is_an_observation():
    prediction = agent(["Hm.\n", ConstraintStateError("no way on"), *SUBMIT])(question="?")
    (call,) = prediction.history.turns[0].calls
    assert call.is_error
    assert call.observation == "Execution error in the call: ConstraintStateError: no way on"
    assert prediction.trajectory.steps[0].outcome == "refused"


def test_long_observations_are_cut():
    react = agent([*turn(body("add", a=10**300)), *SUBMIT], limits=TokenLimits(observation=100))
    assert "[cut:" in observations(react(question="?").history)[0][0]


def test_calls_are_approved_before_any_runs_and_submit_is_not_asked_about():
    asked: list[tuple[str, Any]] = []

    def approve(call: PendingCall) -> Any:
        asked.append((call.tool_name, call.args))
        return {1: Deny("too small"), 2: Edit({"a": 20}), 3: Allow()}[call.args["a"]]

    told: list[Event] = []
    react = agent([*turn(*(body("add", a=a) for a in (1, 2, 3))), *SUBMIT], approve=approve, on_event=told.append)
    prediction = react(question="?")
    denied, edited, allowed = observations(prediction.history)[0]
    assert denied == "The user did not allow this call of add: too small"
    assert edited.endswith("It gave: 22")
    assert allowed == "5"
    assert asked == [("add", {"a": 1}), ("add", {"a": 2}), ("add", {"a": 3})]
    started = [event for event in told if isinstance(event, CallStarted)]
    assert [event.tool_args for event in started] == [{"a": 20}, {"a": 3}]
    assert [step.edited_args for step in prediction.trajectory.steps] == [None, {"a": 20}, None]


def test_a_dry_run_calls_no_tool_and_submits():
    prediction = agent([*turn(body("fail", reason="x")), *SUBMIT], dry_run=True)(question="?")
    assert observations(prediction.history)[0][0].startswith("Dry run")
    assert prediction.answer == 7


def refuse_7(value: int) -> int:
    if value == 7:
        raise ValueError("7 is taken")
    return value


class Picky(Signature):
    """Answer."""

    question: str = InputField()
    answer: Annotated[int, AfterValidator(refuse_7)] = OutputField()


def test_outputs_that_a_validator_refuses_are_an_observation_and_the_run_goes_on():
    better = turn(body("submit", answer=8), end=None)
    prediction = ReActV2(Picky, [add], lm=ScriptedModel([*SUBMIT, *better]))(question="?")
    assert (prediction.answer, prediction.termination_reason) == (8, "submit")
    (call,) = prediction.history.turns[0].calls
    assert call.is_error
    assert "7 is taken" in call.observation


def test_forced_outputs_that_a_validator_refuses_are_an_error():
    with pytest.raises(SignatureError, match="7 is taken"):
        ReActV2(Picky, [add], lm=ScriptedModel(["No call.", *FORCED]))(question="?")


@pytest.mark.parametrize(
    ("script", "options", "forced_by"),
    [
        ([*turn(body("add", a=1)), *FORCED], {"max_iters": 1}, "max_iters"),
        (["It is 7.", *FORCED], {}, "no_call"),
        (["Hm.\n", f"<tool_call>{body('add', a=1)}", *FORCED], {"limits": TokenLimits(call=20)}, "max_tokens"),
        (["Hm.\n", SUBMIT[1], *FORCED], {"limits": TokenLimits(call=40)}, None),
        ([*turn(body("add", a=1)), *FORCED], {"limits": TokenLimits(run=1736)}, "token_budget"),
    ],
)
def test_submit_is_forced_where_the_model_comes_to_no_end(script: list[str], options: Any, forced_by: str | None):
    react = agent(script, **options)
    prediction = react(question="?")
    assert (prediction.answer, prediction.forced_by) == (7, forced_by)
    assert prediction.termination_reason == ("forced_submit" if forced_by else "submit")
    assert text_of(react).endswith(SUBMIT[1])
    assert not react.lm.script  # pyright: ignore[reportAttributeAccessIssue]


def test_submit_is_forced_when_no_turn_fits_any_more():
    limits = TokenLimits(thought=100, call=200, observation=300, outputs=100)
    script = [*turn(body("add", a=10**100), end=None), *turn(body("add", a=10**100 + 1), end=None), *FORCED]
    opening = len(encode(agent([]).prompt_format.opening({"question": "?"}).text))
    lm = ScriptedModel(script, context_len=opening + 1200)
    prediction = agent([], lm=lm, limits=limits)(question="?")
    assert (prediction.forced_by, prediction.answer) == ("context", 7)
    assert len(prediction.history) == 3
    assert not lm.script


def test_no_turn_is_begun_and_no_call_decided_once_the_time_is_over(monkeypatch: pytest.MonkeyPatch):
    assert agent(FORCED, limits=TokenLimits(max_seconds=1e-9))(question="?").forced_by == "time_budget"
    monkeypatch.setattr(RunBudget, "is_out_of_time", True)
    assert agent(["Hm.\n", *FORCED])(question="?").forced_by == "time_budget"


def test_what_tools_raise_that_is_no_error_ends_the_run_and_closes_the_session():
    def stop() -> str:
        """Stop."""
        raise KeyboardInterrupt

    react = agent([*turn(body("stop"))], tools=[stop])
    with pytest.raises(KeyboardInterrupt):
        react(question="?")
    assert react.lm.sessions[0].is_closed  # pyright: ignore[reportAttributeAccessIssue]
