import json
from pathlib import Path
from typing import Any, Literal

import pytest

from sureact.agent.react import ReAct
from sureact.agent.recorded_run import run_of
from sureact.agent.replay import recorded_agent, replay
from sureact.agent.scripted_model import ScriptedModel, byte_vocabulary
from sureact.agent.signature import InputField, OutputField, Signature
from sureact.agent.token_limits import TokenLimits
from sureact.agent.tool import Tool
from sureact.engine import Engine
from sureact.errors import ConfigError, OutputTruncatedError, TraceError

SCRIPT = [
    " I add.\n",
    'Action: add\nArguments: {"a": 1}\n',
    " I know.\n",
    "Action: finish\nArguments: {}\n",
    '{"reasoning": "", "answer": 3}',
]
SIGNATURE = "question, n: int | None -> answer: int"


class ShowingModel(ScriptedModel):
    vocabulary = byte_vocabulary()


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def agent(script: list[str], **options: Any) -> ReAct:
    return ReAct(SIGNATURE, [add], lm=ShowingModel(script), prompt_format="fields", **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A trace of a whole run."""
    path = tmp_path / "t.jsonl"
    agent(SCRIPT, trace=path)(question="1 + 2?", n=None)
    return path


def test_the_same_model_gives_the_same_run_without_a_tool(path: Path) -> None:
    before = path.read_bytes()
    lm = ShowingModel(SCRIPT)
    report = replay(recorded_agent(run_of(path), lm), path)
    assert report.difference is None
    assert (report.num_steps, report.is_whole, report.changed_masks) == (2, True, [])
    assert report.num_tokens == len(lm.sessions[-1].token_ids)
    assert lm.sessions[-1].is_closed
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("index", "text", "part", "texts"),
    [
        (0, " I sum.\n", "the thought of step 1", ("add.", "sum.")),
        (1, 'Action: add\nArguments: {"a": 2}\n', "the call of step 1", ("1}", "2}")),
        (3, 'Action: add\nArguments: {"a": 2}\n', "the call of step 2", ("finish", "add")),
        (4, '{"reasoning": "", "answer": 4}', "outputs", ("3}", "4}")),
        (4, '{"reasoning": "", "answer": 31}', "outputs", ("}", "1}")),
    ],
)
def test_the_first_token_that_differs_is_named(
    path: Path, index: int, text: str, part: str, texts: tuple[str, str]
) -> None:
    script = [*SCRIPT[:index], text, *SCRIPT[index + 1 :]]
    difference = replay(agent(script), path).difference
    assert difference is not None
    assert difference.part == part
    assert difference.recorded_id == ord(texts[0][0])
    assert difference.replayed_id == ord(texts[1][0])
    assert texts[0] in difference.recorded_text
    assert texts[1] in difference.replayed_text


def test_another_prompt_is_a_difference_too(path: Path) -> None:
    react = ReAct(Signature(SIGNATURE, "Be brief."), [add], lm=ScriptedModel(SCRIPT), prompt_format="fields")
    difference = replay(react, path).difference
    assert difference is not None
    assert (difference.part, difference.recorded_text) == ("prompt", "")


def test_other_masks_are_told(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[3]["generation"]["constraint"] = "0" * 64
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert replay(agent(SCRIPT), path).changed_masks == ["the call of step 1"]


@pytest.mark.parametrize("num_records", range(2, 11))
def test_a_run_that_was_cut_off_is_replayed_as_far_as_it_came(path: Path, num_records: int) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:num_records]))
    report = replay(agent(SCRIPT), path)
    assert report.difference is None
    assert report.is_whole is False


def test_a_call_that_did_not_end_is_replayed(tmp_path: Path) -> None:
    path, limits = tmp_path / "t.jsonl", TokenLimits(call=5)
    script = [*SCRIPT[:2], SCRIPT[-1]]
    agent(script, trace=path, limits=limits)(question="?", n=3)
    report = replay(recorded_agent(run_of(path), ShowingModel(script)), path)
    assert (report.difference, report.is_whole) == (None, True)


def test_outputs_that_do_not_end_are_a_difference(path: Path) -> None:
    limits = TokenLimits(outputs=8)
    with pytest.raises(OutputTruncatedError):
        agent(SCRIPT, limits=limits)(question="?", n=1)
    header = json.loads(path.read_text().splitlines()[0])
    header["limits"]["outputs"] = 8
    path.write_text("\n".join([json.dumps(header), *path.read_text().splitlines()[1:], ""]))
    difference = replay(agent(SCRIPT), path).difference
    assert difference is not None
    assert (difference.part, difference.replayed_id) == ("outputs", None)


def test_what_has_no_ids_cannot_be_replayed(path: Path, tmp_path: Path) -> None:
    redacted = tmp_path / "redacted.jsonl"
    agent(SCRIPT, trace=redacted, redact=["question"])(question="secret", n=1)
    with pytest.raises(TraceError, match="lacks token ids"):
        replay(agent(SCRIPT), redacted)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0])
    with pytest.raises(TraceError, match="lacks token ids"):
        replay(agent(SCRIPT), path)
    header = json.loads(lines[0])
    del header["signature"]
    path.write_text(json.dumps(header) + "\n")
    with pytest.raises(TraceError, match="version 1"):
        recorded_agent(run_of(path), ScriptedModel([]))


def test_a_recorded_tool_cannot_be_called(path: Path) -> None:
    react = recorded_agent(run_of(path), ScriptedModel([]))
    with pytest.raises(ConfigError, match="only recorded"):
        react.tools["add"](a=1)


class Ask(Signature):
    """Answer briefly."""

    question: str = InputField(desc="what the user wants to know")
    n: int = InputField()
    answer: str = OutputField(desc="one word")


@pytest.mark.parametrize("prompt_format", ["fields", "qwen_react"])
def test_what_the_prompt_holds_of_fields_titles_and_learned_instructions_is_replayed(
    tmp_path: Path, prompt_format: str
) -> None:
    written = tmp_path / "asked.jsonl"

    def asked(lm: ScriptedModel, trace: Path | None) -> ReAct:
        react = ReAct(Ask, [Tool(add, title="Plus")], lm=lm, prompt_format=prompt_format, trace=trace)
        react.react.signature = react.react.signature.with_instructions("Be terse.")
        react.extract.predict.signature = react.extract.predict.signature.with_descriptions({"answer": "a word"})
        return react

    script = {
        "fields": [" Done.\n", "Action: finish\nArguments: {}\n", '{"reasoning": "", "answer": "x"}'],
        "qwen_react": [" Done.\n", "Final Answer:\n", '{"reasoning": "", "answer": "x"}'],
    }[prompt_format]
    asked(ScriptedModel(script), written)(question="?", n=1)
    report = replay(recorded_agent(run_of(written), ScriptedModel(script)), written)
    assert (report.difference, report.is_whole, report.changed_masks) == (None, True, [])


@pytest.mark.parametrize("on_max_tokens", ["cut", "close"])
def test_an_engine_replays_its_own_run(
    tmp_path: Path, roomy_engine: Engine, on_max_tokens: Literal["cut", "close"]
) -> None:
    path = tmp_path / "t.jsonl"
    limits = TokenLimits(thought=8, call=60, outputs=40, on_max_tokens=on_max_tokens)
    react = ReAct("q -> answer: bool", [add], lm=roomy_engine, limits=limits, trace=path, max_iters=2)
    if on_max_tokens == "cut":
        with pytest.raises(OutputTruncatedError):
            react(q="?")
    else:
        assert react(q="?").answer in (True, False)
    report = replay(recorded_agent(run_of(path), roomy_engine), path)
    assert report.is_whole is (on_max_tokens == "close")
    assert report.difference is None
    assert report.num_steps > 0
    assert report.changed_masks == []
