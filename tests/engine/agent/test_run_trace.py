import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from sureact.agent.agent_context import Generation
from sureact.agent.react import ReAct
from sureact.agent.recorded_run import output_of
from sureact.agent.run_trace import (
    RunTrace,
    _generation_record,  # pyright: ignore[reportPrivateUsage]
    token_texts,
)
from sureact.agent.scripted_model import ScriptedModel, byte_vocabulary
from sureact.agent.trace import read_trace
from sureact.agent.trace_records import TRACE_VERSION, Record
from sureact.engine import Engine
from sureact.outputs import EarlyEnd, StepOutput, TokenUsage
from sureact.sampling_params import RunawayLimits, SamplingParams

SCRIPT = (
    " I add.\n",
    'Action: add\nArguments: {"a": 1}\n',
    " I know.\n",
    "Action: finish\nArguments: {}\n",
    '{"reasoning": "", "answer": 3}',
)
RECORD: TypeAdapter[Any] = TypeAdapter(Record)


class ShowingModel(ScriptedModel):
    """Shows its vocabulary, as an engine does."""

    vocabulary = byte_vocabulary()


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def traced(path: Path, lm: ScriptedModel | None = None, **options: Any) -> list[dict[str, Any]]:
    lm = lm or ShowingModel(SCRIPT)
    ReAct("question -> answer: int", [add], lm=lm, prompt_format="fields", trace=path, **options)(question="é?")
    return read_trace(path)


def test_without_a_path_nothing_is_written() -> None:
    with RunTrace(None) as trace:
        trace.truncated((0,), ())


def test_every_record_is_of_its_documented_type(tmp_path: Path) -> None:
    records = traced(tmp_path / "t.jsonl")
    assert [record["type"] for record in records] == [
        *("header", "prompt"),
        *("thought", "call", "call_started", "observation") * 2,
        "outputs",
    ]
    for record in records:
        judged = RECORD.validate_python(record, strict=True)
        assert set(judged) == set(record), "a field is not documented"
    assert len({record["run_id"] for record in records}) == 1


def test_the_context_can_be_put_together_again(tmp_path: Path) -> None:
    lm = ShowingModel(SCRIPT)
    records = traced(tmp_path / "t.jsonl", lm)
    assert [id_ for record in records for id_ in record.get("context_ids", ())] == lm.sessions[0].token_ids


def test_the_header_says_what_the_run_starts_from(tmp_path: Path) -> None:
    header = traced(tmp_path / "t.jsonl", on_repeat="run", max_iters=7)[0]
    assert (header["version"], header["model"], header["model_fingerprint"]) == (TRACE_VERSION, "scripted", None)
    assert header["signature"]["input_types"] == {"question": "str"}
    assert header["signature"]["output_types"] == {"answer": "int"}
    assert (header["inputs"], header["max_iters"], header["on_repeat"]) == ({"question": "é?"}, 7, "run")
    limits = {"thought": 200, "call": 512, "observation": 1024, "outputs": 1024, "kept_observation": 128}
    ends = {"on_max_tokens": "close", "runaway": asdict(RunawayLimits())}
    assert header["limits"] == {**limits, "run": None, "max_seconds": None, **ends}
    assert [tool["name"] for tool in header["tools"]] == ["add", "finish"]


def test_a_generation_tells_its_tokens_and_how_they_were_asked_for(tmp_path: Path) -> None:
    _, _, thought, call, *_ = traced(tmp_path / "t.jsonl")
    free, masked = thought["generation"], call["generation"]
    assert (free["text"], "".join(free["tokens"])) == (" I add.\n", " I add.\n")
    assert free["constraint"] is None
    assert "\n" in free["sampling"].pop("stop")
    ends = {"on_max_tokens": "close", "runaway": asdict(RunawayLimits())}
    assert free["sampling"] == {"max_tokens": 200, "include_stop": True, "temperature": 0.0, **ends}
    assert (free["finish_reason"], free["stop_reason"]) == ("stop", "\n")
    assert len(masked["constraint"]) == 64
    assert masked["token_ids"] == list(b'Action: add\nArguments: {"a": 1}\n')
    assert (call["tool_name"], call["tool_args"], call["refusal"]) == ("add", {"a": 1}, None)


def test_what_was_ended_early_is_recorded_and_read_back() -> None:
    usage = TokenUsage(prompt_tokens=1, cached_tokens=0, completion_tokens=2)
    end = EarlyEnd("repetition", 96, "/q")
    output = StepOutput(text="ab", token_ids=(1, 2), finish_reason="stop", usage=usage, early_ends=(end,))
    record = _generation_record(Generation(output, SamplingParams(), None), None)
    assert record["early_ends"] == [{"reason": "repetition", "num_tokens": 96, "pointer": "/q"}]
    assert output_of(json.loads(json.dumps(record))) == output
    assert "early_ends" not in _generation_record(
        Generation(replace(output, early_ends=()), SamplingParams(), None), None
    )


def test_a_call_that_did_not_end_is_recorded_without_a_name(tmp_path: Path) -> None:
    from sureact.agent.token_limits import TokenLimits

    script = [*SCRIPT[:2], SCRIPT[-1]]
    records = traced(tmp_path / "t.jsonl", ShowingModel(script), limits=TokenLimits(call=5))
    call = records[3]
    assert (call["type"], call["tool_name"], call["generation"]["finish_reason"]) == ("call", None, "length")
    assert records[-1]["termination_reason"] == "max_tokens"
    assert records[-1]["context_ids"][: len("Outputs")] == list(b"Outputs")


def test_an_error_is_recorded_and_passes_on(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        traced(tmp_path / "t.jsonl", ShowingModel([KeyboardInterrupt()]))
    *_, prompt, aborted = read_trace(tmp_path / "t.jsonl")
    assert (prompt["type"], aborted["type"], aborted["error"]) == ("prompt", "aborted", "KeyboardInterrupt")


def test_runs_that_share_a_file_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with RunTrace(path) as first, RunTrace(path) as second:
        for trace in (first, second, first):
            trace._write("aborted", error="", message="")  # pyright: ignore[reportPrivateUsage]
    ids = [record["run_id"] for record in read_trace(path)]
    assert ids[0] == ids[2] != ids[1]


def test_a_character_of_several_tokens_stands_at_the_last_of_them() -> None:
    pieces = ["é".encode()[:1], "é".encode()[1:] + b"a", b"\xff", b"b", b"", "🙂".encode()[:3]]
    texts = token_texts(range(6), pieces)
    assert texts[:2] == ["", "éa"]
    assert "".join(texts).startswith("éa")
    assert len(texts) == 6
    assert token_texts([0], [b"\xf0"]) == ["\ufffd"]
    assert token_texts([], []) == []


def test_an_engine_tells_its_fingerprint_tokens_timings_and_what_was_forced(
    tmp_path: Path, roomy_engine: Engine
) -> None:
    from sureact.agent.token_limits import TokenLimits
    from sureact.errors import SureactError

    limits = TokenLimits(thought=8, call=60, outputs=20)
    react = ReAct("q -> answer: bool", [add], lm=roomy_engine, limits=limits, trace=tmp_path / "t.jsonl", max_iters=1)
    with pytest.raises(SureactError):
        react(q="?")
    header, _, thought, call, *_ = read_trace(tmp_path / "t.jsonl")
    assert header["model_fingerprint"] == roomy_engine.session_origin.fingerprint
    generation = call["generation"]
    assert len(generation["tokens"]) == len(generation["token_ids"])
    assert "".join(generation["tokens"]) == generation["text"]
    assert len(generation["forced"]) == generation["usage"]["forced_tokens"] > 0
    assert generation["timings"]["mask_s"] > 0
    assert thought["generation"]["timings"]["prefill_s"] > 0
