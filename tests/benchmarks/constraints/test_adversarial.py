"""The promise itself, small: against models that work against it, what finishes is valid and everything ends."""

import json
import sys
from pathlib import Path

import pytest
from benchmarks.constraints.adversarial import guarded_texts, main, read_schemas, tool_calls
from benchmarks.constraints.adversary import STRATEGIES
from benchmarks.constraints.arena import Arena

from sureact.errors import ConfigError

CORPUS = Path(__file__).parents[2] / "data" / "schemas"


@pytest.fixture
def arena() -> Arena:
    return Arena(max_tokens=80, max_rollbacks=64, seed=3)


def test_tool_calls_are_valid_or_end_in_a_clear_error(arena: Arena) -> None:
    calls = tool_calls(read_schemas(CORPUS), 200, 3, arena)
    arena.play(next(calls) for _ in range(200))
    report = arena.report()
    assert report["violation_list"] == []
    assert report["texts"] == 200
    assert report["valid"] > 60
    assert report["valid"] + report["cut"] + report["budget_errors"] + report["no_text_errors"] == 200


def test_texts_of_guarded_schemas_are_valid_or_end_in_a_clear_error(arena: Arena) -> None:
    arena.play(guarded_texts(read_schemas(CORPUS), arena))
    report = arena.report()
    assert report["violation_list"] == []
    assert report["vetoes"] > report["dead_ends"] >= report["rollbacks"]
    assert report["valid"] > 8


def test_every_tool_is_called_under_every_strategy(arena: Arena) -> None:
    schemas = {"a": {"type": "object"}, "b": {"properties": {"x": {}}}, "no object": {"type": "string"}, "any": True}
    calls = tool_calls(schemas, 9, 0, arena)
    played = [next(calls) for _ in range(10)]
    assert {(call.name, call.strategy) for call in played} == {(name, s) for name in "ab" for s in STRATEGIES}


def test_files_without_tools_are_an_error(arena: Arena) -> None:
    with pytest.raises(ConfigError, match="No schema in these files"):
        next(tool_calls({"any": True}, 9, 0, arena))


def test_the_command_prints_the_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = {"schema": {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}, "tests": []}
    (tmp_path / "tool.json").write_text(json.dumps(case), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["adversarial", str(tmp_path), "--calls", "10", "--max-tokens", "60"])
    assert main() == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["texts"], report["violations"]) == (11, 0)


def test_a_path_without_schemas_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["adversarial", "no such folder"])
    assert main() == 2
    assert "no such folder does not exist" in capsys.readouterr().err
