"""A closing is legal, short, and leaves the position as it was."""

import json
from typing import Any

import pytest

from sureact.constraints.choice import choice
from sureact.constraints.closing_text import byte_token, canonical_part, find_closing, is_end, spell
from sureact.constraints.constraint import Constraint, ConstraintState
from sureact.constraints.json_outline import Outline
from sureact.constraints.json_schema import json_schema
from sureact.tokens.vocabulary import Vocabulary

OBJECT: Any = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "n": {"type": "integer", "minimum": 5},
        "color": {"enum": ["red", "green"]},
        "many": {"type": "array", "items": {"type": "object", "required": ["a"]}, "minItems": 2},
    },
    "required": ["id", "n", "color", "many"],
    "additionalProperties": False,
}


def closed(constraint: Constraint, vocabulary: Vocabulary, text: str, max_tokens: int = 300) -> str | None:
    """The whole text with its end."""
    state = constraint.compile(vocabulary).new_state()
    for byte in text.encode():
        state.accept_token(byte)
    before = _facts(state)
    end = find_closing(state, vocabulary, max_tokens, Outline().read(text.encode()))
    assert _facts(state) == before
    return None if end is None else text + spell(vocabulary, end).decode()


def _facts(state: ConstraintState) -> tuple[Any, ...]:
    legal = tuple(byte for byte in range(256) if state.check_token(byte))
    return (legal, state.is_accepting, state.is_terminated, state.forced_tokens())


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"id": "D1000', '{"id": "a\\', '{"id": "a\\u00', '{"id": "a", "n": 100'],
)
def test_an_object_gets_what_it_requires(vocabulary: Vocabulary, text: str) -> None:
    constraint = json_schema(OBJECT)
    whole = closed(constraint, vocabulary, text)
    assert whole is not None
    constraint.parse(whole)


@pytest.mark.parametrize(
    ("schema", "text", "whole"),
    [
        ({"type": "string"}, '"ab', '"ab"'),
        ({"type": "string", "minLength": 6}, '"ab', '"ab...."'),
        ({"type": "array", "items": {"type": "integer"}}, "[1", "[1]"),
        ({"type": "array", "items": {"type": "integer"}}, "[1, ", "[1, 0]"),
        ({"type": "integer"}, "100", "100"),
        ({"type": "integer"}, "-", "-0"),
        ({"type": ["object", "null"]}, "", "null"),
        ({}, '[[{"a": "', '[[{"a": ""}]]'),
        ({"enum": ["中文", "日本"]}, '"日', '"日本"'),
        ({"type": "object", "minProperties": 2}, "{", '{"": "", ".": ""}'),
    ],
)
def test_the_end_is_short(vocabulary: Vocabulary, schema: Any, text: str, whole: str) -> None:
    assert closed(json_schema(schema), vocabulary, text) == whole


@pytest.mark.parametrize(
    "schema",
    [
        *({"type": "string", "format": name} for name in ("date-time", "email", "uuid", "ipv4", "uri", "hostname")),
        {"type": "string", "pattern": "^[A-Z]{3}-\\d{4,}$"},
        {"type": "string", "pattern": "^[a-z]+x$"},
        {"type": "array", "items": {"type": "integer"}, "minItems": 4, "uniqueItems": True},
        {"type": "array", "items": {"type": "integer"}, "contains": {"const": 3}},
        {"not": {"type": "string"}, "type": ["string", "integer"]},
    ],
    ids=str,
)
def test_patterns_formats_and_what_a_guard_holds_are_met(vocabulary: Vocabulary, schema: Any) -> None:
    constraint = json_schema(schema)
    whole = closed(constraint, vocabulary, "")
    assert whole is not None
    constraint.parse(whole)


def test_a_choice_is_finished(vocabulary: Vocabulary) -> None:
    assert closed(choice(["search", "search_web"]), vocabulary, "search_") == "search_web"


def test_there_is_no_end_in_fewer_tokens_than_it_takes(vocabulary: Vocabulary) -> None:
    constraint = json_schema({"const": "x" * 40})
    assert closed(constraint, vocabulary, '"x', max_tokens=30) is None
    assert closed(constraint, vocabulary, '"x', max_tokens=40) == json.dumps("x" * 40)


def test_the_end_is_spelled_as_the_tokenizer_spells_it(vocabulary: Vocabulary) -> None:
    """Longest token first, in a vocabulary without a tokenizer: `"}` is one token."""
    state = json_schema({"properties": {"a": {"type": "string"}}, "required": ["a"]}).compile(vocabulary).new_state()
    text = b'{"a": "b'
    for byte in text:
        state.accept_token(byte)
    assert find_closing(state, vocabulary, 10, Outline().read(text)) == [vocabulary.token_bytes.index(b'"}')]


def test_a_part_is_spelled_legally_or_not_at_all(vocabulary: Vocabulary) -> None:
    state = json_schema({"type": "array"}).compile(vocabulary).new_state()
    assert canonical_part(state, vocabulary, b'["') == [ord("["), ord('"')]
    assert canonical_part(state, vocabulary, b"}") is None
    assert not is_end(state, [ord("[")])
    assert is_end(state, [ord("["), ord("]")])
    assert byte_token(vocabulary, ord("}")) == ord("}")
