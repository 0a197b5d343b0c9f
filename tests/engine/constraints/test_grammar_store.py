import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sureact.constraints import grammar_store
from sureact.constraints.constraint import Constraint
from sureact.constraints.grammar_store import load_leeway, save_leeway
from sureact.constraints.json_schema import json_schema
from sureact.constraints.schema.leeway import Leeway
from sureact.tokens.vocabulary import Vocabulary

LEEWAY = Leeway(frozenset({"counts", "merging"}), frozenset({"a(?=b)"}), frozenset({"none"}))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(grammar_store, "home_folder", lambda: tmp_path)
    return tmp_path / "grammars"


def test_what_is_kept_comes_back() -> None:
    assert load_leeway("key") is None
    save_leeway("key", LEEWAY)
    assert load_leeway("key") == LEEWAY
    assert load_leeway("other key") is None


@pytest.mark.parametrize("damaged", ["", "[]", '{"schema": 1}', "\x00"])
def test_a_damaged_file_is_made_anew(folder: Path, damaged: str) -> None:
    save_leeway("key", LEEWAY)
    next(folder.glob("*.json")).write_text(damaged, encoding="utf-8")
    assert load_leeway("key") is None
    save_leeway("key", LEEWAY)
    assert load_leeway("key") == LEEWAY


def test_those_unused_for_longest_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_store, "MAX_FILES", 2)
    for age, key in ((30, "a"), (20, "b"), (10, "c")):
        save_leeway(key, LEEWAY)
        newest = max(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        os.utime(newest, (newest.stat().st_atime - age, newest.stat().st_mtime - age))
    assert len(list(folder.glob("*.json"))) == 2
    assert load_leeway("a") is None


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path) -> None:
    folder.write_text("a file", encoding="utf-8")
    save_leeway("key", LEEWAY)
    assert load_leeway("key") is None


OVERLAPPING = {"type": "object", "patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 3}}}


def test_a_grammar_that_took_long_is_found_at_once_the_next_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: Vocabulary
) -> None:
    monkeypatch.setattr("sureact.constraints.json_schema.MIN_SECONDS", 0)
    json_schema({**OVERLAPPING, "title": "kept"}).compile(vocabulary)
    assert len(list(folder.glob("*.json"))) == 1
    tried: list[str] = []
    chosen = json_schema({**OVERLAPPING, "title": "kept"}).choose_grammar(lambda grammar: tried.append(grammar) or True)
    assert len(tried) == 1
    assert chosen.grammar.leeway is not None
    assert chosen.grammar.leeway.omitted
    assert len(list(folder.glob("*.json"))) == 1


def test_a_file_that_was_tampered_with_lets_nothing_invalid_through(
    folder: Path, monkeypatch: pytest.MonkeyPatch, spells: Callable[[Constraint, str], bool]
) -> None:
    monkeypatch.setattr("sureact.constraints.json_schema.MIN_SECONDS", 0)
    constraint = json_schema({**OVERLAPPING, "title": "tampered"})
    save_leeway(constraint.cache_key, Leeway(frozenset({"details", "merging", "unions"})))
    assert spells(constraint, '{"a": 1}')
    assert not spells(constraint, '{"a": "x"}')
    assert not spells(constraint, '{"ab": 1}')
