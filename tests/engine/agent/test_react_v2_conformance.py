"""What `dspy.ReActV2` of dspy 3.4 does, and how it is called. One rule per test, without dspy.

Where dspy differs, the test's name says what holds here; docs/history.md lists these.
"""

import asyncio
import inspect
import json
from collections.abc import Sequence
from typing import Any

import pytest

from sureact.agent.history import History
from sureact.agent.prediction import Example
from sureact.agent.react_v2 import ReActV2
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.signature import InputField, OutputField, Signature
from sureact.agent.token_limits import TokenLimits
from sureact.agent.tool import Tool
from sureact.errors import (
    ConfigError,
    ConstraintStateError,
    ContextWindowExceededError,
    OutputTruncatedError,
    SignatureError,
    ToolDefinitionError,
)


def search(query: str, k: int = 3) -> list[str]:
    """Search the archive."""
    return [f"{query} {index}" for index in range(k)]


def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


def call(tool: str, **args: object) -> str:
    return f'<tool_call>\n{{"name": "{tool}", "arguments": {json.dumps(args)}}}\n</tool_call>'


def turn(*calls: str) -> list[str]:
    first, *others = calls
    return ["I look.\n", first, *(text for other in others for text in ("<tool_call>", other)), ""]


SUBMIT = ["Done.\n", call("submit", answer="Rome")]
LOOK = turn(call("search", query="a"))


def agent(*script: str | BaseException, tools: Sequence[Any] = (search, fail), **options: Any) -> ReActV2:
    return ReActV2("question -> answer", tools, lm=ScriptedModel(script), **options)


def text_of(react: ReActV2, index: int = -1) -> str:
    assert isinstance(react.lm, ScriptedModel)
    return react.lm.sessions[index].text


# The constructor


def test_max_iters_is_20_by_default():
    assert inspect.signature(ReActV2).parameters["max_iters"].default == agent().max_iters == 20


def test_a_signature_may_be_a_text_an_object_or_a_class():
    class Ask(Signature):
        """Answer."""

        question: str = InputField()
        answer: str = OutputField()

    for signature in ("question -> answer", Signature("question -> answer", "Answer."), Ask):
        assert list(ReActV2(signature, [search], lm=ScriptedModel([])).signature.fields) == ["question", "answer"]


def test_tools_are_kept_by_name_and_submit_is_added_last():
    react = agent(tools=[search, Tool(fail, name="break_it")])
    assert list(react.tools) == ["search", "break_it", "submit"]


def test_submit_takes_the_outputs_and_gives_them():
    submit = ReActV2("q -> answer, k: int", [], lm=ScriptedModel([])).tools["submit"]
    assert submit.args == {"answer": {"type": "string"}, "k": {"type": "integer"}}
    assert submit(answer="a", k=1) == {"answer": "a", "k": 1}


def test_a_tool_called_submit_is_refused():
    with pytest.raises(ToolDefinitionError, match="'submit'"):
        agent(tools=[Tool(search, name="submit")])


def test_two_tools_of_one_name_are_refused_and_the_last_does_not_win():
    with pytest.raises(ToolDefinitionError):
        agent(tools=[search, search])


def test_reserved_fields_are_refused_when_the_agent_is_made():
    for signature in ("q -> history", "q -> termination_reason", "history -> a", "tools -> a"):
        with pytest.raises(SignatureError, match="reserved"):
            ReActV2(signature, [], lm=ScriptedModel([]))


def test_there_is_one_predictor_called_react_with_a_thought_and_calls_as_outputs():
    react = agent()
    ((name, predictor),) = react.named_predictors()
    assert name == "react"
    assert list(predictor.signature.outputs) == ["next_thought", "tool_calls"]


# The loop


def test_submit_ends_the_run_without_a_further_generation():
    react = agent(*LOOK, *SUBMIT)
    prediction = react(question="?")
    assert (prediction.answer, prediction.termination_reason) == ("Rome", "submit")
    assert prediction.usage.num_generations == 5
    assert text_of(react).endswith(SUBMIT[1])


def test_without_tools_there_is_submit():
    assert agent(*SUBMIT, tools=())(question="?").answer == "Rome"


def test_several_calls_of_a_turn_run_and_their_results_keep_their_order():
    history = agent(*turn(call("search", query="a", k=1), call("search", query="b", k=1)), *SUBMIT)(
        question="?"
    ).history
    assert [c.observation for c in history.turns[0].calls] == ['["a 0"]', '["b 0"]']


def test_calls_have_ids_of_turn_and_position_that_stay_unique_in_a_conversation():
    react = agent(*turn(call("search", query="a"), call("search", query="b")), *SUBMIT, *LOOK, *SUBMIT)
    history = react(question="?", history=react(question="?").history).history
    assert [c.id for t in history.turns for c in t.calls] == [
        "call_0_0",
        "call_0_1",
        "call_1_0",
        "call_2_0",
        "call_3_0",
    ]


def test_an_unknown_tool_cannot_be_called():
    prediction = agent("I look.\n", call("seek", query="a"), *SUBMIT)(question="?")
    assert prediction.trajectory.steps[0].outcome == "refused"


def test_submit_beside_other_calls_is_not_taken_since_their_results_were_not_seen():
    react = agent("I look.\n", call("search", query="a"), "<tool_call>", call("submit", answer="guess"), *SUBMIT)
    assert react(question="?").answer == "Rome"


def test_an_error_of_a_tool_is_a_result_without_a_traceback_and_the_run_goes_on():
    history = agent(*turn(call("fail", reason="no")), *SUBMIT)(question="?").history
    (failed,) = history.turns[0].calls
    assert (failed.observation, failed.is_error) == ("Execution error in fail: ValueError: no", True)


def test_inputs_stand_in_the_first_turn_only():
    react = agent(*LOOK, *SUBMIT)
    history = react(question="Where?").history
    assert [t.inputs for t in history.turns] == [{"question": "Where?"}, None]
    assert text_of(react).count("Where?") == 1


def test_an_input_that_is_missing_is_an_error_and_not_left_out():
    with pytest.raises(SignatureError, match="Missing"):
        agent()()


def test_max_iters_can_be_set_per_call():
    prediction = agent(*LOOK, SUBMIT[1])(question="?", max_iters=1)
    assert (prediction.termination_reason, prediction.forced_by) == ("forced_submit", "max_iters")


# Forced submit


def test_a_turn_without_a_call_forces_submit():
    prediction = agent("It is Rome.", SUBMIT[1])(question="?")
    assert (prediction.answer, prediction.termination_reason) == ("Rome", "forced_submit")
    assert (prediction.forced_by, prediction.history.turns[0].thought) == ("no_call", "It is Rome.")


def test_a_forced_submit_is_under_the_schema_and_cannot_be_another_call():
    with pytest.raises(ConstraintStateError):
        agent("It is Rome.", LOOK[1])(question="?")


def test_a_forced_submit_that_fails_is_an_error():
    with pytest.raises(OutputTruncatedError):
        agent("Rome.", SUBMIT[1], limits=TokenLimits(outputs=20))(question="?")


def test_a_conversation_that_does_not_fit_is_an_error():
    react = ReActV2("question -> answer", [search], lm=ScriptedModel([], context_len=2000))
    with pytest.raises(ContextWindowExceededError):
        react(question="?" * 1000)


# Conversations


def test_a_history_goes_on_as_an_object_or_serialized():
    react = agent(*LOOK, *SUBMIT, *SUBMIT, *SUBMIT)
    history = react(question="?").history
    assert isinstance(history, History)
    for given in (history, json.loads(json.dumps(history.to_dict()))):
        assert len(react(question="!", history=given).history) == 3


def test_anything_else_as_history_is_refused():
    with pytest.raises(ConfigError, match="history"):
        agent()(question="?", history=[{"role": "user"}])  # pyright: ignore[reportArgumentType]


def test_the_history_that_is_given_is_not_changed():
    react = agent(*LOOK, *SUBMIT, *SUBMIT)
    history = react(question="?").history
    before = history.to_dict()
    react(question="!", history=history)
    assert history.to_dict() == before


def test_past_turns_are_not_rendered_again():
    react = agent(*LOOK, *SUBMIT, *SUBMIT)
    react(question="!", history=react(question="?").history)
    assert text_of(react, 1).startswith(text_of(react, 0))


def test_submitted_outputs_are_kept_in_their_turn():
    history = agent(*LOOK, *SUBMIT)(question="?").history
    assert [t.outputs for t in history.turns] == [None, {"answer": "Rome"}]


# How it is called


def test_it_can_be_awaited():
    assert asyncio.run(agent(*LOOK, *SUBMIT).acall(question="?")).answer == "Rome"


def test_a_batch_gives_a_prediction_per_example():
    example = Example(question="?").with_inputs("question")
    (prediction,) = agent(*SUBMIT).batch([example.inputs()], disable_progress_bar=True)
    assert prediction.answer == "Rome"
