import json
from pathlib import Path
from typing import Any

import pytest

from sureact.agent.predict import Predict
from sureact.agent.prediction import Example
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.trajectory import Step, Trajectory
from sureact.errors import ConfigError, SignatureError

PLAIN_FORMATS = ("fields", "qwen_react")
STEP: dict[str, Any] = {
    "question": "1 + 1?",
    "trajectory": "",
    "next_thought": "I add.",
    "next_tool_name": "add",
    "next_tool_args": {"a": 1, "b": 1},
}
TAKEN = Trajectory([Step(index=0, thought="I add.", tool_name="add", tool_args={"a": 1, "b": 1}, observation="2")])
OUTPUTS: dict[str, Any] = {"question": "1 + 1?", "trajectory": TAKEN, "reasoning": "seen", "answer": 2}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(prompt_format: str = "fields", script: tuple[str, ...] = ()) -> ReAct:
    return ReAct("question -> answer: int", [add], lm=ScriptedModel(script), prompt_format=prompt_format)


def opening(react: ReAct) -> str:
    return react.prompt_format.opening({"question": "?"}).text


def test_the_predictors_have_the_names_and_fields_of_dspy():
    react = agent()
    assert [name for name, _ in react.named_predictors()] == ["react", "extract.predict"]
    assert list(react.react.signature.fields) == [
        "question",
        "trajectory",
        "next_thought",
        "next_tool_name",
        "next_tool_args",
    ]
    assert list(react.extract.predict.signature.fields) == ["question", "trajectory", "reasoning", "answer"]
    assert react.react.signature.instructions == react.signature.instructions


@pytest.mark.parametrize("prompt_format", [*PLAIN_FORMATS, "qwen_tool_call"])
def test_without_demos_the_prompt_has_the_instructions_alone(prompt_format: str):
    react = agent(prompt_format)
    text = opening(react)
    assert "Given `question`, give `answer`." in text
    assert "Examples of" not in text
    assert "For the outputs at the end" not in text
    assert text == opening(react)


@pytest.mark.parametrize("prompt_format", [*PLAIN_FORMATS, "qwen_tool_call"])
def test_instructions_of_both_predictors_are_in_the_prompt(prompt_format: str):
    react = agent(prompt_format)
    react.react.signature = react.react.signature.with_instructions("Add with care.")
    extract = react.extract.predict
    extract.signature = extract.signature.with_instructions("One number.").with_descriptions({"answer": "the sum"})
    text = opening(react)
    assert "Add with care.\n\nFor the outputs at the end: One number." in text
    assert "answer: int, the sum" in text
    assert "Given `question`" not in text


@pytest.mark.parametrize(
    ("prompt_format", "shown"),
    [
        ("fields", 'Thought: I add.\nAction: add\nArguments: {"a": 1, "b": 1}\n'),
        ("qwen_react", 'Thought: I add.\nAction: add\nAction Input: {"a": 1, "b": 1}\n'),
        ("qwen_tool_call", 'I add.\n\n{"name": "add", "arguments": {"a": 1, "b": 1}}\n'),
    ],
)
def test_demos_are_written_as_the_format_writes_steps(prompt_format: str, shown: str):
    react = agent(prompt_format)
    react.react.demos = [STEP]
    react.extract.predict.demos = [OUTPUTS]
    text = opening(react)
    of_steps, _, of_outputs = text.partition("Examples of a next step:")[2].partition("Examples of outputs:")
    assert shown in of_steps
    assert "question: 1 + 1?\n" in of_steps
    assert shown in of_outputs
    assert '{"reasoning": "seen", "answer": 2}' in of_outputs
    assert "2" in of_outputs.partition(shown)[2].partition('{"reasoning"')[0]
    # No control token of a chat template is spelled out in the instructions.
    assert "<|im_" not in of_steps


def test_a_trajectory_may_be_text_or_steps_and_fields_may_lack():
    react = agent()
    react.react.demos = [
        {**STEP, "trajectory": "[[ ## thought_0 ## ]]\nI looked."},
        {"question": "2 + 2?", "next_thought": "Only a thought."},
        {**STEP, "trajectory": dict(TAKEN)},
    ]
    text = opening(react)
    assert "[[ ## thought_0 ## ]]\nI looked.\nThought: I add." in text
    assert "Thought: Only a thought.\n" in text
    assert "Observation: 2\nThought: I add." in text


def test_demos_may_change_between_runs():
    finish = (" done\n", "Action: finish\nArguments: {}\n", '{"reasoning": "r", "answer": 2}')
    react = agent(script=finish * 3)
    react(question="?")
    react.react.demos.append(dict(STEP))
    react(question="?")
    react.react.demos[0] = {**STEP, "next_thought": "Other."}
    react(question="?")
    assert isinstance(react.lm, ScriptedModel)
    prompts = [session.text for session in react.lm.sessions]
    assert ["I add." in prompt for prompt in prompts] == [False, True, False]
    assert "Other." in prompts[2]


@pytest.mark.parametrize(
    "demo",
    [
        {**STEP, "next_tool_name": "subtract"},
        {**STEP, "next_tool_args": "a=1"},
        {**STEP, "answer": 2},
        {**STEP, "trajectory": {"thought_0": "t"}},
        {**STEP, "trajectory": {"notes": "t"}},
    ],
)
def test_demos_that_do_not_fit_are_refused_before_a_run(demo: dict[str, Any]):
    react = agent()
    react.react.demos = [demo]
    with pytest.raises(ConfigError, match="emo"):
        react(question="?")
    assert isinstance(react.lm, ScriptedModel)
    assert react.lm.sessions == []


def test_the_predictor_of_steps_cannot_be_called_alone():
    react = agent()
    with pytest.raises(ConfigError, match="call the agent"):
        react.react(question="?", trajectory="")
    with pytest.raises(SignatureError, match="Inputs are given by name"):
        react.react("?")


def test_the_extraction_can_be_called_alone():
    react = agent(script=('{"reasoning": "r", "answer": 2}',))
    assert react.extract(question="?", trajectory="I added: 2").answer == 2


def test_one_run_has_one_model():
    react = agent()
    other = ScriptedModel([])
    react.react.lm = other
    with pytest.raises(ConfigError, match="have two models"):
        react(question="?")
    react.set_lm(other)
    assert react.lm is react.extract.lm is other
    first = ScriptedModel([])
    react.lm = first
    assert react.get_lm() is first
    with pytest.raises(ConfigError, match="it must be a model"):
        react.lm = "gpt"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_new_model_gets_its_own_prompt_format():
    react = agent()
    before = react.prompt_format
    assert react.prompt_format is before
    react.lm = ScriptedModel([])
    assert react.prompt_format is not before


def test_a_replaced_predictor_counts():
    react = agent()

    def brief(predictor: Predict) -> Predict:
        copy = predictor.deepcopy()
        copy.signature = copy.signature.with_instructions("Be brief.")
        return copy

    react.map_named_predictors(brief)
    assert "Be brief." in opening(react)


def test_state_of_an_agent_goes_through_a_file(tmp_path: Path):
    react = agent()
    react.react.demos = [Example(STEP)]
    react.extract.predict.demos = [OUTPUTS]
    react.react.signature = react.react.signature.with_instructions("Add with care.")
    react.save(tmp_path / "agent.json")
    other = agent()
    other.load(tmp_path / "agent.json")
    assert opening(other) == opening(react)
    assert set(json.loads((tmp_path / "agent.json").read_text())["state"]) == {"react", "extract.predict"}
    assert opening(other.reset_copy()).count("Examples of") == 0
    assert opening(other.deepcopy()) == opening(other)
