"""Qwen-Agent's own loops on a scripted model."""

import json
import logging
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from sureact.agent.scripted_model import ScriptedModel, encode
from sureact.agent.tool import Tool
from sureact.errors import PromptTooLongError
from sureact.evaluation.scoring.foreign_loop import LoopTask
from sureact.evaluation.scoring.peer_loop import PeerRun

if find_spec("qwen_agent") is None:
    pytest.skip("qwen-agent is not installed", allow_module_level=True)

from sureact.evaluation.scoring.qwen_agent_loop import LoopName, QwenAgentLoop


def double(number: int) -> int:
    """Double a number.

    Args:
        number: any
    """
    return 2 * number


TASK = LoopTask(question="What is twice 2?", output_type="float", tools=[Tool(double)], max_iters=2)


def tagged(name: str, **args: object) -> list[str]:
    """Return a call as generations say it: one ends at each tag."""
    call = json.dumps({"name": name, "arguments": args})
    return ["I double.<tool_call>", f"\n{call}\n</tool_call>", ""]


def labelled(name: str, args: str) -> str:
    return f"I double.\nAction: {name}\nAction Input: {args}\nObservation: 99"


def play(loop: LoopName, said: Sequence[str | BaseException]) -> tuple[PeerRun, ScriptedModel]:
    model = ScriptedModel(said)
    run = QwenAgentLoop(model, loop).run(TASK)
    assert all(session.is_closed for session in model.sessions)
    assert not model.script
    return run, model


def test_calls_in_tags_are_run_and_the_last_text_is_the_answer() -> None:
    run, model = play("fncall", [*tagged("double", number=2), "It is 4."])
    assert [(call.tool_name, call.args, call.fault) for call in run.calls] == [("double", {"number": 2}, "")]
    assert (run.outputs, run.fault) == ({"answer": "It is 4."}, "")
    assert "<tool_response>\n4\n</tool_response>" in model.sessions[-1].text
    assert run.num_tokens > 60


def test_tags_in_the_prompt_are_control_tokens_as_servers_have_them() -> None:
    _, model = play("fncall", ["4"])
    assert encode("<tool_call>")[0] in model.sessions[0].token_ids


def test_labelled_calls_are_run_and_stop_before_an_observation() -> None:
    run, model = play("react", [labelled("double", '{"number": 2}'), "I know.\nFinal Answer: 4"])
    assert [(call.tool_name, call.args, call.fault) for call in run.calls] == [("double", {"number": 2}, "")]
    assert (run.outputs, run.fault) == ({"answer": "4"}, "")
    assert 'Action Input: {"number": 2}\nObservation: 4\nThought: ' in model.sessions[-1].text
    assert "99" not in model.sessions[-1].text
    assert "Answer the following questions as best you can." in model.sessions[-1].text


@pytest.mark.parametrize(
    ("name", "args", "fault", "told"),
    [
        ("triple", '{"number": 2}', "There is no tool 'triple'.", "Tool triple does not exists."),
        ("double", '{"number": "two"}', "'two' is not of type 'integer'", "An error occurred when calling tool"),
        ("double", "2", "The arguments are no JSON object.", "An error occurred when calling tool"),
        ("double", "two and two", "The arguments are no JSON object.", "must be formatted as a valid JSON"),
        ("double", "{'number': 2}", "", "Observation: 4"),  # JSON5, which the package reads
        ("double", '```json\n{"number": 2}\n```', "", "Observation: 4"),
    ],
)
def test_what_the_package_does_with_slips_is_its_own_affair(name: str, args: str, fault: str, told: str) -> None:
    run, model = play("react", [labelled(name, args), "Final Answer: 4"])
    assert [call.fault for call in run.calls] == [fault]
    assert told in model.sessions[-1].text
    assert run.outputs == {"answer": "4"}


@pytest.mark.parametrize(
    "said",
    [
        ['```json\n{"name": "double", "arguments": {"number": 2}}\n```'],
        ["I double.<tool_call>", '\n{"name": "double"'],
    ],
)
def test_a_call_that_is_taken_for_the_answer_is_none(said: list[str]) -> None:
    run, _ = play("fncall", said)
    assert (run.outputs, run.calls) == (None, [])
    assert "took for the answer" in run.fault


@pytest.mark.parametrize("loop", ["fncall", "react"])
def test_a_run_without_an_end_is_ended(loop: LoopName) -> None:
    said = tagged("double", number=2) if loop == "fncall" else [labelled("double", '{"number": 2}')]
    run, _ = play(loop, said * 3)
    assert len(run.calls) == 3
    assert (run.outputs, run.fault) == (None, "No answer came in 3 turns.")


def test_an_error_of_the_engine_ends_the_run() -> None:
    run, _ = play("react", [PromptTooLongError("too long")])
    assert (run.outputs, run.fault) == (None, "PromptTooLongError: too long")


def test_a_text_that_runs_on_is_cut() -> None:
    model = ScriptedModel(["x" * 9999], context_len=8000)
    assert QwenAgentLoop(model, "fncall").run(TASK).num_tokens == 1024


def test_thoughts_in_tags_are_kept_apart() -> None:
    run, _ = play("fncall", ["<think>", "Twice 2?</think>", "4"])
    assert run.outputs == {"answer": "4"}


def test_the_prompt_changes_with_what_goes_into_it() -> None:
    loop = QwenAgentLoop(ScriptedModel([]), "fncall")
    assert "What is twice 2?" in loop.prompt(TASK)
    assert '"description": "any"' in loop.prompt(TASK)


def test_nothing_is_logged_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    play("react", [labelled("triple", "{}"), "4"])
    said = capsys.readouterr()
    assert said.out == said.err == ""
    assert list(tmp_path.iterdir()) == []
    assert not logging.getLogger("qwen_agent_logger").isEnabledFor(logging.ERROR)
