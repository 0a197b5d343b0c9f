"""What `dspy.ReAct` of dspy 3.4 does in trajectory mode, and how it is called. One rule per test, without dspy.

Where dspy is known to be wrong, the test's name says what holds here; docs/modules.md lists these.
"""

import asyncio
import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sureact.agent.prediction import Example, Prediction
from sureact.agent.react import ReAct
from sureact.agent.react_v2 import ReActV2
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.signature import InputField, OutputField, Signature
from sureact.agent.token_limits import TokenLimits
from sureact.agent.tool import Tool
from sureact.agent.trajectory import Trajectory
from sureact.errors import (
    ContextWindowExceededError,
    PromptTooLongError,
    SignatureError,
    ToolDefinitionError,
)

ANSWER = '{"reasoning": "looked", "answer": "Rome"}'
SMALL = TokenLimits(thought=100, call=100, observation=300, kept_observation=300, outputs=100)


def search(query: str, k: int = 3) -> list[str]:
    """Search the archive."""
    return [f"{query} {index}" for index in range(k)]


def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


def step(name: str, **args: object) -> list[str]:
    return [f" I use {name}.\n", f"Action: {name}\nArguments: {json.dumps(args)}\n"]


FINISH = [*step("finish"), ANSWER]


def agent(*script: str, tools: Sequence[Any] = (search, fail), context_len: int = 100_000, **options: Any) -> ReAct:
    lm = ScriptedModel(script, context_len=context_len)
    return ReAct("question -> answer", tools, lm=lm, prompt_format="fields", **options)


# The constructor


def test_max_iters_is_20_by_default():
    assert agent().max_iters == 20
    assert inspect.signature(ReAct).parameters["max_iters"].default == 20


def test_a_signature_may_be_a_text_an_object_or_a_class():
    class Ask(Signature):
        """Answer."""

        question: str = InputField()
        answer: str = OutputField()

    for signature in ("question -> answer", Signature("question -> answer", "Answer."), Ask):
        assert list(ReAct(signature, [search], lm=ScriptedModel([])).signature.fields) == ["question", "answer"]


def test_tools_may_be_functions_or_tools_and_are_kept_by_name():
    tool = Tool(fail, name="break_it")
    react = agent(tools=[search, tool])
    assert list(react.tools) == ["search", "break_it", "finish"]
    assert react.tools["break_it"] is tool


def test_finish_is_added_last_and_takes_nothing():
    finish = list(agent().tools.values())[-1]
    assert (finish.name, finish.args, finish()) == ("finish", {}, "Completed.")
    assert "`answer`" in finish.desc


def test_a_tool_called_finish_and_two_of_one_name_are_refused_and_not_replaced():
    for tools in ([Tool(search, name="finish")], [search, search]):
        with pytest.raises(ToolDefinitionError):
            agent(tools=tools)


def test_without_tools_there_is_finish():
    assert list(agent(tools=()).tools) == ["finish"]
    assert agent(*FINISH, tools=())(question="?").answer == "Rome"


def test_reserved_names_are_refused_when_the_agent_is_made():
    for signature in ("trajectory -> answer", "max_iters -> answer", "question -> trajectory", "question -> reasoning"):
        with pytest.raises(SignatureError, match="reserved"):
            ReAct(signature, [], lm=ScriptedModel([]))


# The loop


def test_a_trajectory_has_four_keys_a_step_numbered_from_0():
    trajectory = agent(*step("search", query="a"), *FINISH)(question="?").trajectory
    assert list(trajectory) == [
        f"{key}_{index}" for index in range(2) for key in ("thought", "tool_name", "tool_args", "observation")
    ]


def test_tool_args_keep_their_types():
    trajectory = agent(*step("search", query="a", k=1), *FINISH)(question="?").trajectory
    assert trajectory["tool_args_0"] == {"query": "a", "k": 1}


def test_finish_ends_the_loop_and_its_observation_is_kept():
    prediction = agent(*FINISH)(question="?")
    assert prediction.trajectory["observation_0"] == "Completed."
    assert prediction.termination_reason == "finish"


def assert_refused(*script: str) -> None:
    """The text cannot be decoded, which the model reads, and the run goes on."""
    prediction = agent(*script, *FINISH)(question="?")
    assert prediction.trajectory["observation_0"].startswith("Execution error in the call: ConstraintStateError")
    assert prediction.termination_reason == "finish"


def test_finish_with_arguments_cannot_be_decoded():
    assert_refused(" Done.\n", 'Action: finish\nArguments: {"answer": "Rome"}\n')


def test_a_tool_that_is_not_there_cannot_be_decoded():
    assert_refused(" Hm.\n", "Action: browse\nArguments: {}\n")


def test_max_iters_ends_the_loop_without_an_error_and_the_outputs_are_given():
    prediction = agent(*step("search", query="a"), *step("search", query="b"), ANSWER, max_iters=2)(question="?")
    assert (prediction.answer, len(prediction.trajectory.steps)) == ("Rome", 2)
    assert prediction.termination_reason == "max_iters"


def test_max_iters_may_be_given_by_position_as_in_programs_for_dspy():
    lm = ScriptedModel([])
    assert ReAct("question -> answer", [], 5, lm=lm).max_iters == 5
    assert ReActV2("question -> answer", [], 5, lm=lm).max_iters == 5


def test_max_iters_can_be_set_for_one_call():
    react = agent(*step("search", query="a"), ANSWER, *step("search", query="a"), *FINISH)
    assert len(react(question="?", max_iters=1).trajectory.steps) == 1
    assert (len(react(question="?").trajectory.steps), react.max_iters) == (2, 20)


def test_n_steps_cost_n_and_one_model_calls_of_dspy_and_the_outputs_are_the_last():
    react = agent(*step("search", query="a"), *FINISH)
    react(question="?")
    # A step is two texts here: a thought, and a call under the grammar.
    assert len(react.history) == 2 * 2 + 1
    assert react.history[-1].output.text == ANSWER


def test_the_outputs_come_after_reasoning():
    assert list(agent(*FINISH)(question="?")) == ["reasoning", "answer"]


def test_a_run_begins_with_an_empty_trajectory():
    react = agent(*step("search", query="a"), *FINISH, *FINISH)
    react(question="?")
    assert len(react(question="?").trajectory.steps) == 1


def test_inputs_that_are_missing_or_unknown_are_refused_before_a_token_is_spent():
    react = agent()
    for inputs in ({}, {"question": "?", "more": 1}):
        with pytest.raises(SignatureError):
            react(**inputs)
    with pytest.raises(SignatureError, match="by name"):
        react("?")
    assert len(react.history) == 0


# Errors of tools


def test_a_tool_that_raises_is_an_observation_that_names_it():
    trajectory = agent(*step("fail", reason="blew up"), *FINISH)(question="?").trajectory
    assert trajectory["observation_0"] == "Execution error in fail: ValueError: blew up"


def test_the_model_sees_no_traceback_and_no_path_of_the_host():
    def read() -> str:
        raise FileNotFoundError(__file__)

    trajectory = agent(*step("read"), *FINISH, tools=[read])(question="?").trajectory
    assert trajectory["observation_0"] == f"Execution error in read: FileNotFoundError: [...]/{Path(__file__).name}"


def test_arguments_that_do_not_fit_or_lack_cannot_be_decoded():
    for args in ({"query": 1}, {"k": 3}, {"query": "a", "more": 1}):
        assert_refused(*step("search", **args))


# Truncation


def full_agent(num_steps: int) -> ReAct:
    def long(size: int) -> str:
        """Return a long text."""
        return "x" * size

    script = [text for index in range(num_steps) for text in step("long", size=250 + index)]
    opening = len(agent(tools=[long]).prompt_format.opening({"question": "?"}).text)
    return agent(*script, *FINISH, tools=[long], context_len=opening + 1490, limits=SMALL)


def test_a_full_context_drops_the_oldest_step_and_the_others_keep_their_numbers():
    prediction = full_agent(5)(question="?")
    kept = [kept_step.index for kept_step in prediction.trajectory.steps]
    assert kept == list(range(kept[0], 6))
    assert kept[0] > 0
    assert prediction.answer == "Rome"


def test_truncate_trajectory_may_be_overridden():
    class KeepsLast(ReAct):
        def truncate_trajectory(self, trajectory: Trajectory) -> Trajectory:
            return Trajectory(trajectory.steps[-1:])

    full = full_agent(5)
    react = KeepsLast("question -> answer", [full.tools["long"]], lm=full.lm, prompt_format="fields", limits=SMALL)
    assert react(question="?").answer == "Rome"


def test_the_only_call_cannot_be_dropped_which_is_an_error_of_the_context_and_a_value_error():
    one = agent(*FINISH)(question="?").trajectory
    with pytest.raises(ContextWindowExceededError, match=r"1 step\(s\)") as caught:
        agent().truncate_trajectory(one)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, PromptTooLongError)
    assert len(one.steps) == 1


def test_a_context_that_stays_full_ends_the_loop_and_the_outputs_are_given():
    class KeepsAll(ReAct):
        def truncate_trajectory(self, trajectory: Trajectory) -> Trajectory:
            raise ContextWindowExceededError("nothing may go")

    full = full_agent(5)
    assert isinstance(full.lm, ScriptedModel)
    full.lm.script = [*full.lm.script[:6], ANSWER]
    react = KeepsAll("question -> answer", [full.tools["long"]], lm=full.lm, prompt_format="fields", limits=SMALL)
    prediction = react(question="?")
    assert (prediction.answer, prediction.termination_reason) == ("Rome", "context")


def test_inputs_that_do_not_fit_are_an_error_of_the_context():
    with pytest.raises(ContextWindowExceededError):
        agent(context_len=300)(question="x" * 400)


# Calls


def test_forward_aforward_call_and_acall_give_the_same():
    react = agent(*FINISH * 4)

    async def awaited() -> list[Prediction]:
        return [await react.acall(question="?"), await react.aforward(question="?")]

    predictions = [react(question="?"), react.forward(question="?"), *asyncio.run(awaited())]
    assert [dict(prediction) for prediction in predictions] == [json.loads(ANSWER)] * 4
    assert [dict(prediction.trajectory) for prediction in predictions] == [dict(predictions[0].trajectory)] * 4


def test_an_async_tool_runs_whether_the_agent_is_called_or_awaited():
    async def look(query: str) -> str:
        await asyncio.sleep(0)
        return query.upper()

    react = agent(*[*step("look", query="a"), *FINISH] * 2, tools=[look])
    predictions = [react(question="?"), asyncio.run(react.acall(question="?"))]
    assert [prediction.trajectory["observation_0"] for prediction in predictions] == ["A", "A"]


def test_batch_gives_predictions_in_order_or_a_triple_with_the_failed_examples_and_errors():
    examples = [Example(question=q, answer="").with_inputs("question") for q in ("a", "b")]
    assert [p.answer for p in agent(*FINISH * 2).batch(examples, num_threads=1)] == ["Rome", "Rome"]
    wrong = [Example(question="a").with_inputs("question"), Example(query="b").with_inputs("query")]
    predictions, failed, errors = agent(*FINISH).batch(
        wrong,
        num_threads=1,
        max_errors=1,
        return_failed_examples=True,
        provide_traceback=True,
        disable_progress_bar=True,
    )
    assert [prediction is None for prediction in predictions] == [False, True]
    assert (failed, [type(error) for error in errors]) == ([wrong[1]], [SignatureError])


def test_inputs_of_an_example_are_those_that_were_named_and_must_be_named():
    example = Example(question="q", answer="a").with_inputs("question")
    assert (dict(example.inputs()), dict(example.labels())) == ({"question": "q"}, {"answer": "a"})
    with pytest.raises(ValueError, match="with_inputs"):
        Example(question="q").inputs()


def test_a_prediction_is_read_by_attribute_and_by_key_and_may_be_made_by_users():
    prediction = Prediction(answer="Rome", score=1)
    assert (prediction.answer, prediction["score"]) == ("Rome", 1)
