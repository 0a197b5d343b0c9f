"""Outcomes survive the process, also one that is killed while it writes."""

import json
from pathlib import Path

import pytest

from sureact.errors import ConfigError
from sureact.evaluation.scoring.outcome import CaseKey, Outcome
from sureact.evaluation.scoring.outcome_file import OutcomeFile

KEY = CaseKey("m", "int8", "fields", "sureact", "case-1", "abc", "v1", "e1")
OUTCOME = Outcome(is_right=True, is_valid=True, num_tokens=3, seconds=0.5, answer='"é"', fault="")


def filled(path: Path) -> None:
    file = OutcomeFile(path)
    file.add(KEY, OUTCOME)
    file.close()


def test_an_outcome_is_read_back(tmp_path: Path) -> None:
    filled(tmp_path / "new" / "r.jsonl")
    file = OutcomeFile(tmp_path / "new" / "r.jsonl")
    assert file.get(KEY) == OUTCOME
    assert len(file) == 1
    file.close()


@pytest.mark.parametrize("changed", CaseKey._fields)
def test_another_key_has_no_outcome(tmp_path: Path, changed: str) -> None:
    filled(tmp_path / "r.jsonl")
    file = OutcomeFile(tmp_path / "r.jsonl")
    assert file.get(KEY._replace(**{changed: "other"})) is None
    file.close()


def test_an_outcome_of_another_version_is_known_as_such(tmp_path: Path) -> None:
    filled(tmp_path / "r.jsonl")
    file = OutcomeFile(tmp_path / "r.jsonl")
    newer = KEY._replace(version="v2")
    assert [file.is_outdated(key) for key in (KEY, newer, newer._replace(case="case-2"))] == [False, True, False]
    file.add(newer, OUTCOME)
    assert not file.is_outdated(newer)
    file.close()


def test_an_outcome_of_other_files_or_settings_is_known_as_such(tmp_path: Path) -> None:
    filled(tmp_path / "r.jsonl")
    file = OutcomeFile(tmp_path / "r.jsonl")
    other = KEY._replace(engine="e2")
    assert file.is_outdated(other)
    file.add(other, OUTCOME)
    assert [file.is_outdated(key) for key in (KEY, other)] == [False, False]
    file.close()


def test_a_line_without_a_version_is_read_and_outdated(tmp_path: Path) -> None:
    filled(tmp_path / "r.jsonl")
    line = json.loads((tmp_path / "r.jsonl").read_text())
    del line["version"], line["engine"]
    (tmp_path / "r.jsonl").write_text(json.dumps(line) + "\n")
    file = OutcomeFile(tmp_path / "r.jsonl")
    assert file.get(KEY) is None
    assert file.get(KEY._replace(version="", engine="")) == OUTCOME
    assert file.is_outdated(KEY)
    file.close()


@pytest.mark.parametrize("num_bytes", [1, 10, 60, 200])
def test_a_line_that_was_cut_off_is_left_out_and_ended(tmp_path: Path, num_bytes: int) -> None:
    path = tmp_path / "r.jsonl"
    filled(path)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:num_bytes])
    OutcomeFile(path).close()
    file = OutcomeFile(path)
    assert len(file) == 1
    file.add(KEY._replace(case="case-2"), OUTCOME)
    file.close()
    again = OutcomeFile(path)
    assert len(again) == 2
    again.close()


@pytest.mark.parametrize("line", ['{"a": 1}', "[1]", "nonsense", '{"model": "m"}'])
def test_another_file_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "r.jsonl").write_text(f"{line}\n")
    with pytest.raises(ConfigError, match=r"Line 1 of the results file .* --results"):
        OutcomeFile(tmp_path / "r.jsonl")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        OutcomeFile(tmp_path)
