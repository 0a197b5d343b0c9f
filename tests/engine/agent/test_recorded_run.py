import json
from pathlib import Path
from typing import Any

import pytest

from sureact.agent.recorded_run import output_of, recorded_runs, run_of, step_of
from sureact.agent.trajectory import Step
from sureact.errors import TraceError

HEADER: dict[str, Any] = {"type": "header", "version": 2}
STEP: dict[str, Any] = {"index": 0, "thought": "Hm.", "tool_name": "add", "tool_args": {}, "observation": "3"}
GENERATION: dict[str, Any] = {
    "text": "Hm.\n",
    "token_ids": [1, 2],
    "tokens": ["Hm", ".\n"],
    "forced": [1],
    "finish_reason": "stop",
    "stop_reason": [2],
    "usage": {"prompt_tokens": 5, "cached_tokens": 0, "completion_tokens": 2},
    "timings": {"prefill_s": 1.0},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.jsonl"


def write(path: Path, *records: dict[str, Any], run_id: str = "abc") -> None:
    with path.open("a") as file:
        file.writelines(json.dumps({"run_id": run_id, "time_s": 1.0, **record}) + "\n" for record in records)


def test_a_run_is_put_together_as_far_as_it_came(path: Path) -> None:
    thought = {"type": "thought", "step": 0, "text": "Hm.", "context_ids": [1, 2], "generation": GENERATION}
    call = {"type": "call", "step": 0, "tool_name": "add", "tool_args": {}, "context_ids": [3]}
    write(path, HEADER, {"type": "prompt", "context_ids": [9]}, thought, call)
    run = run_of(path)
    assert (run.next_index, run.state, run.prompt and run.prompt["context_ids"]) == (0, "not finished", [9])
    assert run.steps[0].context_ids is None
    write(path, {"type": "observation", "step": 0, "finished": STEP, "context_ids": [4, 5]})
    run = run_of(path)
    assert (run.next_index, run.steps[0].context_ids) == (1, [1, 2, 3, 4, 5])
    assert run.steps[0].finished == Step(**STEP)


def test_a_step_that_began_again_counts_once(path: Path) -> None:
    write(path, HEADER, {"type": "thought", "step": 0, "text": "a"}, {"type": "call_started", "step": 0})
    write(path, {"type": "resumed", "version": 2}, {"type": "thought", "step": 0, "text": "b"})
    (run,) = recorded_runs(path)
    assert run.steps[0].started is None
    assert run.steps[0].thought is not None
    assert run.steps[0].thought.record["text"] == "b"


def test_a_run_that_goes_on_is_no_longer_aborted(path: Path) -> None:
    write(path, HEADER, {"type": "aborted", "error": "OSError", "message": ""})
    assert run_of(path).state == "aborted by OSError"
    write(path, {"type": "resumed", "version": 2})
    assert run_of(path).state == "not finished"


def test_of_several_runs_the_open_one_is_meant_and_others_by_the_start_of_their_id(path: Path) -> None:
    outputs = {"type": "outputs", "outputs": {}, "termination_reason": "finish"}
    write(path, HEADER, outputs, run_id="abc")
    assert run_of(path).run_id == "abc"
    write(path, HEADER, run_id="abd")
    assert run_of(path).run_id == "abd"
    assert run_of(path, "abc").run_id == "abc"
    for wanted in ("ab", "x"):
        with pytest.raises(TraceError, match=r"abc \(ended by finish\); abd \(not finished\)"):
            run_of(path, wanted)


def test_an_empty_file_and_a_run_without_header_are_refused(path: Path) -> None:
    path.touch()
    with pytest.raises(TraceError, match="Name one of its runs: none"):
        run_of(path)
    write(path, {"type": "thought", "step": 0, "text": ""})
    with pytest.raises(TraceError, match="has no header"):
        run_of(path)


@pytest.mark.parametrize(
    "record",
    [
        {"type": "dance"},
        {"type": "thought"},
        {"type": "observation", "step": 0, "finished": {}},
        {"type": "call", "step": 0, "generation": {"text": ""}},
        {"type": "call", "step": []},
    ],
)
def test_a_damaged_record_is_named(path: Path, record: dict[str, Any]) -> None:
    write(path, HEADER, record)
    with pytest.raises(TraceError, match=f"record 2, of type '{record['type']}', is damaged"):
        recorded_runs(path)


def test_a_generation_comes_back_as_the_model_gave_it() -> None:
    output = output_of(GENERATION)
    assert output is not None
    assert (output.token_ids, output.stop_reason, output.forced_indices) == ((1, 2), (2,), (1,))
    assert (output.usage.prompt_tokens, output.timings.prefill_s) == (5, 1.0)
    assert output_of({**GENERATION, "token_ids": None}) is None


def test_what_a_later_version_adds_to_a_step_is_left_out() -> None:
    assert step_of({**STEP, "mood": "good"}) == Step(**STEP)
