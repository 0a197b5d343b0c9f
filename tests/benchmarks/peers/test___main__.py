import json
import sys
from typing import Any

import pytest
from benchmarks.peers import __main__ as command
from benchmarks.peers.rows import ROWS, Amounts, Row

from sureact.errors import ConfigError


class FakeArena:
    """Notes what is measured."""

    num_threads = 2

    def __init__(self, small: Any, large: Any, *, amounts: Amounts, **options: Any) -> None:
        self.amounts = amounts

    def measure(self, row: Row, peer: str) -> dict[str, object]:
        figures = {"ours": float(self.amounts.num_pairs), "theirs": None, "unit": row.unit, "ratio": None}
        return {"row": row.name, "peer": peer, **figures, "reason": "not there"}


class RefusingArena(FakeArena):
    def __init__(self, small: Any, large: Any, **options: Any) -> None:
        raise ConfigError("no")


def run(monkeypatch: pytest.MonkeyPatch, *words: str, arena: type[FakeArena] = FakeArena) -> int:
    monkeypatch.setattr(sys, "argv", ["peers", *words])
    monkeypatch.setattr(command, "Arena", arena)
    return command.main()


def test_one_object_holds_every_row_the_versions_and_the_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert {"model", "versions", "hardware", "rows"} <= result.keys()
    assert [(row["row"], row["peer"]) for row in result["rows"]] == [(row.name, p) for row in ROWS for p in row.peers]
    assert all({"row", "peer", "ours", "theirs", "unit", "ratio"} <= row.keys() for row in result["rows"])
    assert "llama_cpp_python" in result["versions"]


def test_rows_and_peers_can_be_chosen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--only", "llama.cpp", "--row", "react_int8", "--row", "agents_16", "--repeats", "7", "--json")
    assert run(monkeypatch, *words) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["row"], row["peer"], row["ours"]) == ("react_int8", "llama.cpp", 7.0)


def test_the_table_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--row", "react_int4") == 0
    assert "react_int4 beside llama.cpp: not there" in capsys.readouterr().out


def test_what_was_asked_for_wrongly_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, arena=RefusingArena) == 1
    assert "Error: no" in capsys.readouterr().err
