from typing import Any

import pytest

from sureact.constraints.schema.grammar_writer import GrammarWriter
from sureact.constraints.schema.leeway import Leeway
from sureact.constraints.schema.normal_form import NormalSchema


def written(
    root: dict[str, Any], leeway: Leeway | None = None, *, any_order: bool = False, ensure_ascii: bool = False
) -> dict[str, Any]:
    writer = GrammarWriter(NormalSchema(root, {}), leeway or Leeway(), any_order=any_order, ensure_ascii=ensure_ascii)
    return writer.write()


CLOSED = {"type": "object", "additionalProperties": False}


def test_an_object_is_open_to_names_that_cannot_be_spelled() -> None:
    root = {**CLOSED, "properties": {"é": {"type": "null"}, "a": {"type": "null"}}, "required": ["é", "a"]}
    assert written(root, ensure_ascii=True) == {
        "type": "object",
        "properties": {"a": {"type": "null"}},
        "required": ["a"],
    }
    assert written(root) == root


@pytest.mark.parametrize(
    ("counts", "is_kept"),
    [
        ({"minProperties": 1}, False),
        ({"minProperties": 1, "required": ["a"]}, False),
        ({"minProperties": 2, "required": ["a", "b"]}, False),
        ({"maxProperties": 1}, False),
        ({"maxProperties": 5, "required": ["a", "b"]}, True),
        ({"minProperties": 3, "required": ["a", "b"]}, True),
    ],
)
def test_counts_are_kept_where_every_declared_name_is_required(counts: dict[str, Any], is_kept: bool) -> None:
    schema = written({"type": "object", "properties": {"a": True, "b": True}, **counts})
    assert any(keyword.endswith("Properties") for keyword in schema) is is_kept


def test_objects_without_declared_names_are_counted() -> None:
    root = {"type": "object", "minProperties": 1, "maxProperties": 3}
    assert written(root) == root
    assert written(root, Leeway(frozenset({"counts"}))) == {"type": "object"}


def test_a_maximum_that_a_closed_object_cannot_exceed_says_nothing() -> None:
    root = {**CLOSED, "properties": {"a": {"type": "null"}}, "maxProperties": 1}
    writer = GrammarWriter(NormalSchema(root, {}), Leeway(), any_order=False, ensure_ascii=False)
    assert "maxProperties" not in writer.write()
    assert writer.is_exact


def test_patterns_for_names_are_translated_and_open_the_object_where_they_cannot_be() -> None:
    patterns = {r"^\_a$": True, "^(?!a)b": True}
    assert written({**CLOSED, "patternProperties": patterns}) == {"type": "object", "patternProperties": {"^_a$": True}}


def test_overlapping_patterns_become_one_for_either_schema() -> None:
    patterns = {"^a": {"type": "null"}, "b": {"type": "string"}}
    root = {**CLOSED, "patternProperties": patterns}
    assert written(root, Leeway(frozenset({"overlaps"}))) == {
        **CLOSED,
        "patternProperties": {"(^a)|(b)": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
    }
    assert written(root, Leeway(frozenset({"name patterns"}))) == {"type": "object", "patternProperties": {}}


def test_what_is_required_in_any_order_is_counted() -> None:
    root = {"type": "object", "properties": {"a": True}, "required": ["a", "b"]}
    assert written(root, any_order=True)["minProperties"] == 2
