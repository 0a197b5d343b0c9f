import os
from pathlib import Path

import pytest

from sureact.constraints import grammar_store
from sureact.constraints.grammar_store import load_grammar, save_grammar
from sureact.constraints.json_schema import json_schema
from sureact.constraints.schema.grammar_schema import GrammarSchema
from sureact.tokens.vocabulary import Vocabulary

GRAMMAR = GrammarSchema({"type": "object", "properties": {"b": {}, "a": {}}}, is_exact=False)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(grammar_store, "home_folder", lambda: tmp_path)
    return tmp_path / "grammars"


def test_what_is_kept_comes_back_with_its_order() -> None:
    assert load_grammar("key") is None
    save_grammar("key", GRAMMAR)
    kept = load_grammar("key")
    assert kept == GRAMMAR
    assert kept is not None
    assert list(kept.schema["properties"]) == ["b", "a"]
    assert load_grammar("other key") is None


@pytest.mark.parametrize("damaged", ["", "[]", '{"schema": 1}', "\x00"])
def test_a_damaged_file_is_made_anew(folder: Path, damaged: str) -> None:
    save_grammar("key", GRAMMAR)
    next(folder.glob("*.json")).write_text(damaged, encoding="utf-8")
    assert load_grammar("key") is None
    save_grammar("key", GRAMMAR)
    assert load_grammar("key") == GRAMMAR


def test_those_unused_for_longest_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_store, "MAX_FILES", 2)
    for age, key in ((30, "a"), (20, "b"), (10, "c")):
        save_grammar(key, GRAMMAR)
        newest = max(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        os.utime(newest, (newest.stat().st_atime - age, newest.stat().st_mtime - age))
    assert len(list(folder.glob("*.json"))) == 2
    assert load_grammar("a") is None


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path) -> None:
    folder.write_text("a file", encoding="utf-8")
    save_grammar("key", GRAMMAR)
    assert load_grammar("key") is None


def test_a_grammar_that_took_long_is_kept_and_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: Vocabulary
) -> None:
    schema = {"type": "object", "patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 3}}, "title": "kept"}
    monkeypatch.setattr("sureact.constraints.json_schema.MIN_SECONDS", 0)
    json_schema(schema).compile(vocabulary)
    (path,) = folder.glob("*.json")
    before = path.stat().st_mtime_ns
    tried: list[str] = []
    chosen = json_schema(schema).choose_grammar(lambda grammar: tried.append(grammar) or True)
    assert chosen.guard is not None
    assert len(tried) == 1
    assert len(list(folder.glob("*.json"))) == 1
    assert path.stat().st_mtime_ns >= before
