import json
import sys
from pathlib import Path

import pytest
from benchmarks.constraints import __main__ as command
from benchmarks.constraints.comparison import Settings, compare

from sureact.evaluation.conformance import run
from sureact.evaluation.conformance.case_files import opened_cases


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, schema in {
        "a": {"type": "integer"},
        "b": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        "c": {"type": "boolean"},
    }.items():
        tests = [{"data": [1, 1], "valid": False}, {"data": "x", "valid": False}]
        (folder / f"{name}.json").write_text(json.dumps({"schema": schema, "tests": tests}))
    return folder


def test_engines_meet_the_same_schemas_and_a_missing_one_says_why(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xgrammar", None)
    with opened_cases(corpus) as files:
        compared = compare(files, Settings(engines=("sureact", "llguidance", "xgrammar"), time_limit_s=60))
    ours, raw, missing = compared["engines"]  # pyright: ignore[reportGeneralTypeIssues]
    assert (compared["schemas"], ours["passing"], raw["passing"], raw["compile_errors"]) == (3, 3, 2, 1)
    assert ours["reason"] is raw["reason"] is None
    assert min(ours["peak_memory_mb"], raw["peak_memory_mb"], ours["compile_p50"]) > 0
    assert missing["engine"] == "xgrammar"
    assert "not installed" in missing["reason"]
    beside_raw = compared["beside_raw"]
    assert isinstance(beside_raw, dict)
    assert beside_raw["schemas"] == 2
    assert beside_raw["compile_p50_ratio"] > 0


def test_the_command_prints_a_table_and_appends_the_result(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results.jsonl"
    monkeypatch.setattr(command, "RESULTS", results)
    monkeypatch.setenv("SUREACT_HOME", str(tmp_path / "store"))
    monkeypatch.setattr("sys.argv", ["constraints", str(corpus), "--sample", "2", "--only", "llguidance"])
    assert command.main() == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0].split()[:2] == ["engine", "passing"]
    assert "2 schemas; each engine in a process of its own" in said.out
    assert "256 bytes" in said.err
    assert "for 2 schemas" in said.err
    assert "Of 2 schemas: llguidance 2" in said.err
    [result] = map(json.loads, results.read_text().splitlines())
    assert result["versions"]["llguidance"]
    assert result["hardware"]["memory_bytes"] > 0
    assert [row["engine"] for row in result["engines"]] == ["llguidance"]
    assert result["timing_vocabulary"] == "bytes"
    assert result["command"].startswith("python -m benchmarks.constraints")


def test_a_damaged_file_is_named_and_fails_the_command(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "broken.json").write_text("{")
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results.jsonl")
    monkeypatch.setenv("SUREACT_HOME", str(tmp_path / "store"))
    monkeypatch.setattr("sys.argv", ["constraints", str(corpus), "--sample", "1", "--only", "llguidance"])
    assert command.main() == 1
    said = capsys.readouterr()
    assert "1 schemas" in said.out
    assert "Left out: broken.json cannot be read as JSON" in said.err


def test_a_path_that_is_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUREACT_HOME", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["constraints", str(tmp_path / "absent")])
    assert command.main() == 1
    assert "does not exist" in capsys.readouterr().err


def test_the_default_corpus_is_the_projects_own() -> None:
    assert len(list(command.OWN_CORPUS.glob("*.json"))) > 40
    assert run.MAX_TIMED["sureact"] == run.MAX_TIMED["llguidance"]
