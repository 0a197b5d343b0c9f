"""A peer's loop: our prompt and tools, and whatever its model writes."""

import json
from collections.abc import Sequence

import pytest

from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.evaluation.scoring.call_decoder import CallDecoder, FreeDecoder, GrammarDecoder
from sureact.evaluation.scoring.outlines_schema import OutlinesSchema
from sureact.evaluation.scoring.peer_loop import PeerLoop, PeerRun

SCHEMA = {"type": "object", "properties": {"answer": {"type": "number"}}, "required": ["answer"]}
ANSWER = '{"answer": 3}'


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def fields_call(name: str, **args: object) -> str:
    return f" Thinking.\nAction: {name}\nArguments: {json.dumps(args)}\n"


def json_call(name: str, **args: object) -> str:
    return json.dumps({"name": name, "arguments": args})


def play(
    said: Sequence[str], prompt_format: str, decoder: CallDecoder, max_iters: int = 5
) -> tuple[PeerRun, ScriptedModel]:
    model = ScriptedModel(said)
    agent = ReAct("question -> answer: float", [double], lm=model, max_iters=max_iters, prompt_format=prompt_format)
    run = PeerLoop(agent, decoder, SCHEMA).run({"question": "Q"})
    assert model.sessions[-1].is_closed
    assert model.script == []
    return run, model


def test_free_text_is_read_and_its_tool_is_run() -> None:
    said = [fields_call("double", number=2) + "Observation: 99\n", fields_call("finish"), ANSWER]
    run, model = play(said, "fields", FreeDecoder())
    assert [call.tool_name for call in run.calls] == ["double", "finish"]
    assert run.outputs == {"answer": 3}
    assert "Observation: 4\nThought: Thinking." in model.sessions[-1].text
    assert "99" not in model.sessions[-1].text
    assert run.num_tokens > 0


def test_a_call_in_tags_is_closed_before_its_observation() -> None:
    said = [f"Hm.\n<tool_call>\n{json_call('double', number=2)}\n</tool_call>x", json_call("finish"), ANSWER]
    run, model = play(said, "qwen_tool_call", FreeDecoder())
    assert [call.fault for call in run.calls] == ["", ""]
    assert "</tool_call><|im_end|>\n<|im_start|>tool\n4<|im_end|>" in model.sessions[-1].text


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("I do not know.", "Error: No call can be read in this text. Call one of double, finish"),
        (fields_call("triple", number=2), "Error: There is no tool 'triple'."),
        (fields_call("double", number="two"), "Error: 'two' is not of type 'integer'"),
        (fields_call("finish", answer=3), "Error: "),
    ],
)
def test_a_mistake_is_told_and_the_run_goes_on(said: str, told: str) -> None:
    run, model = play([said, fields_call("finish"), ANSWER], "fields", FreeDecoder())
    assert run.calls[0].fault
    assert f"Observation: {told}" in model.sessions[-1].text
    assert run.outputs == {"answer": 3}


def test_a_run_without_an_end_is_ended_and_asked_for_its_answer() -> None:
    run, _ = play([fields_call("double", number=2)] * 3 + ["none"], "fields", FreeDecoder(), max_iters=3)
    assert len(run.calls) == 3
    assert run.outputs is None


def test_a_grammar_peer_thinks_as_we_do_and_calls_under_its_grammar() -> None:
    said = ["I double.\nand", json_call("double", number=2), "", json_call("finish"), ANSWER]
    run, model = play(said, "qwen_tool_call", GrammarDecoder(OutlinesSchema.of))
    assert [call.tool_name for call in run.calls] == ["double", "finish"]
    assert f"I double.\n<tool_call>\n{json_call('double', number=2)}\n</tool_call><|im_end|>" in model.sessions[-1].text
    assert run.outputs == {"answer": 3}
