"""What the modules of dspy 3.4 do beside their work: state, copies, models, histories. One rule per test, without dspy.

Where dspy is known to be wrong, the test's name says what holds here; docs/modules.md lists these.
"""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from sureact.agent.module import Module
from sureact.agent.predict import ChainOfThought, Predict
from sureact.agent.prediction import Example
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.errors import ConfigError, ModuleStateError

ANSWER = '{"reasoning": "looked", "answer": "Rome"}'
FINISH = (" I am done.\n", "Action: finish\nArguments: {}\n", ANSWER)


def search(query: str, k: int = 3) -> list[str]:
    """Search the archive."""
    return [f"{query} {index}" for index in range(k)]


def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


def agent(*script: str) -> ReAct:
    return ReAct("question -> answer", [search, fail], lm=ScriptedModel(script), prompt_format="fields")


def prompt_of(module: Module) -> str:
    lm = module.get_lm()
    assert isinstance(lm, ScriptedModel)
    return lm.sessions[-1].text


# Predict and ChainOfThought


def test_predict_takes_demos_which_the_prompt_shows():
    predict = Predict("question -> answer", lm=ScriptedModel(['{"answer": "x"}']))
    predict.demos = [Example(question="1 + 1?", answer="2")]
    predict(question="?")
    assert "1 + 1?" in prompt_of(predict)
    assert '{"answer": "2"}' in prompt_of(predict)


def test_chain_of_thought_is_a_module_with_the_predictor_predict_and_reasoning_first():
    cot = ChainOfThought("question -> answer", lm=ScriptedModel([ANSWER]))
    assert list(cot(question="?")) == ["reasoning", "answer"]
    assert [name for name, _ in cot.named_predictors()] == ["predict"]
    assert not isinstance(cot, Predict)


def test_extract_is_a_chain_of_thought_over_inputs_and_trajectory():
    extract = agent().extract
    assert isinstance(extract, ChainOfThought)
    assert list(extract.predict.signature.inputs) == ["question", "trajectory"]
    assert list(extract.predict.signature.outputs) == ["reasoning", "answer"]


def test_react_predicts_a_thought_a_tool_of_the_given_ones_and_its_arguments():
    signature = agent().react.signature
    assert list(signature.outputs) == ["next_thought", "next_tool_name", "next_tool_args"]
    assert signature.outputs["next_tool_name"].annotation.__args__ == ("search", "fail", "finish")
    assert list(signature.inputs)[-1] == "trajectory"


# Services of modules


def test_the_predictors_of_an_agent_are_react_and_extract_predict():
    react = agent()
    assert [name for name, _ in react.named_predictors()] == ["react", "extract.predict"]
    assert [name for name, _ in react.named_parameters()] == ["react", "extract.predict"]
    assert react.predictors() == react.parameters() == [react.react, react.extract.predict]


def test_sub_modules_are_named_from_self():
    assert [name for name, _ in agent().named_sub_modules()] == [
        "self",
        "self.react",
        "self.extract",
        "self.extract.predict",
    ]


def test_a_program_holds_modules_in_attributes_lists_and_dictionaries():
    class Program(Module):
        def __init__(self, lm: Any) -> None:
            super().__init__()
            self.one = Predict("q -> a", lm=lm)
            self.many = [ChainOfThought("q -> a", lm=lm)]
            self.named = {"x": Predict("q -> a", lm=lm)}

    program = Program(ScriptedModel([]))
    assert [name for name, _ in program.named_predictors()] == ["one", "many[0].predict", "named['x']"]


def test_map_named_predictors_puts_new_ones_in_place_and_returns_the_module():
    react = agent(*FINISH)

    def briefly(predictor: Predict) -> Predict:
        new = predictor.deepcopy()
        new.signature = new.signature.with_instructions("Be brief.")
        return new

    assert react.map_named_predictors(briefly) is react
    react(question="?")
    assert "Be brief." in prompt_of(react)


def test_set_lm_and_get_lm_are_of_all_predictors():
    react, other = agent(), ScriptedModel([])
    react.set_lm(other)
    assert react.get_lm() is other
    react.react.lm = ScriptedModel([])
    with pytest.raises(ValueError, match="2 models"):
        react.get_lm()


def test_state_is_json_with_demos_and_signatures_and_without_tools(tmp_path: Path):
    react = agent()
    react.react.demos = [{"question": "a", "next_thought": "b"}]
    react.save(tmp_path / "agent.json")
    other = agent()
    other.load(tmp_path / "agent.json")
    assert other.react.demos == react.react.demos
    assert set(other.dump_state()) == {"react", "extract.predict"}
    assert "Search the archive" not in json.dumps(react.dump_state())


def test_a_state_is_loaded_whole_or_not_at_all():
    react = agent()
    state = react.dump_state()
    state["react"]["demos"] = [{"question": "a", "next_thought": "b"}]
    state["extract.predict"]["signature"]["fields"].pop()
    with pytest.raises(ModuleStateError):
        react.load_state(state)
    assert react.react.demos == []


def test_pickles_are_refused(tmp_path: Path):
    for path, options in (("a.pkl", {}), ("folder", {"save_program": True})):
        with pytest.raises(ModuleStateError, match="run any code"):
            agent().save(tmp_path / path, **options)
    with pytest.raises(ModuleStateError, match="run any code"):
        agent().load(tmp_path / "a.pkl", allow_pickle=True)


def test_deepcopy_has_its_own_predictors_and_reset_copy_no_demos():
    react = agent()
    react.react.demos.append({"question": "a", "next_thought": "b"})
    copy, reset = react.deepcopy(), react.reset_copy()
    copy.react.demos.append({})
    assert (len(react.react.demos), len(reset.react.demos)) == (1, 0)
    assert copy.tools["search"] is react.tools["search"]
    # dspy takes the model of the settings then; here there is none, so the model stays.
    assert reset.get_lm() is react.get_lm()


def test_inspect_history_prints_the_last_calls_to_a_file():
    react, file = agent(*FINISH), io.StringIO()
    react(question="Where?")
    react.inspect_history(n=1, file=file)
    assert "Where?" in file.getvalue()
    assert ANSWER in file.getvalue()


def test_get_lm_usage_tells_the_tokens_of_each_model():
    usage = agent(*FINISH)(question="?").get_lm_usage()["scripted"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


def test_a_string_is_no_model():
    for lm in ("openai/gpt-4o", ScriptedModel):
        with pytest.raises(ConfigError, match="it must be a model"):
            Predict("q -> a", lm=lm)  # pyright: ignore[reportArgumentType]
