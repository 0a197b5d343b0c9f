from pathlib import Path

import pytest

from sureact.agent.run_trace import RunTrace
from sureact.agent.trace import read_trace


def test_without_a_path_nothing_is_written():
    with RunTrace(None) as trace:
        trace.thought(0, "hm")


def test_an_error_is_recorded_and_passes_on(tmp_path: Path):
    path = tmp_path / "run.jsonl"

    def interrupted() -> None:
        with RunTrace(path) as trace:
            trace.header("m", "fields", {}, {"question": "q"})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    header, aborted = read_trace(path)
    assert (header["model"], header["version"], header["inputs"]) == ("m", 1, {"question": "q"})
    assert (aborted["type"], aborted["error"]) == ("aborted", "KeyboardInterrupt")


def test_runs_that_share_a_file_are_told_apart(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    with RunTrace(path) as first, RunTrace(path) as second:
        for trace in (first, second, first):
            trace.thought(0, "hm")
    ids = [record["run_id"] for record in read_trace(path)]
    assert ids[0] == ids[2] != ids[1]
