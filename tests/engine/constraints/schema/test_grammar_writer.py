from typing import Any

import pytest

from sureact.constraints.schema.grammar_writer import GrammarWriter
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.leeway import Leeway, Omission
from sureact.constraints.schema.normal_form import NormalSchema


def written(
    root: Schema, *omitted: Omission, any_order: bool = False, ensure_ascii: bool = False, **definitions: Schema
) -> tuple[dict[str, Any], bool]:
    leeway = Leeway(frozenset(omitted))
    writer = GrammarWriter(NormalSchema(root, definitions), leeway, any_order=any_order, ensure_ascii=ensure_ascii)
    return writer.write(), writer.is_exact


OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}


@pytest.mark.parametrize(
    "root",
    [
        False,
        {"type": "null"},
        {"type": ["string", "integer", "boolean"], "minLength": 1},
        {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        {"enum": [1, "a", {"b": [1]}]},
        OBJECT,
        {"type": "array", "items": OBJECT, "maxItems": 3},
        {"type": "array", "prefixItems": [OBJECT], "maxItems": 1},
        {"anyOf": [OBJECT, {"type": "null"}]},
        {**OBJECT, "anyOf": [{"required": ["a"]}, {"properties": {"a": {"minLength": 3}}}]},
        {"allOf": [OBJECT, {"required": ["a"]}]},
        {"allOf": [OBJECT, {"not": {"required": ["a"]}}]},
        {"oneOf": [OBJECT, {"type": "null"}]},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "additionalProperties": False},
    ],
)
def test_what_a_grammar_holds_in_full_is_exact(root: Schema) -> None:
    assert written(root, x=OBJECT)[1]


@pytest.mark.parametrize(
    "root",
    [
        True,
        {"minLength": 1},
        {"type": "number", "minimum": 0},
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"type": "object", "patternProperties": {"^a": {"type": "string"}}, "additionalProperties": False},
        {"type": "array"},
        {"anyOf": [{"type": "null"}, True]},
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        {"type": "string", "format": "hostname"},
        {"type": "integer", "minimum": 2**60},
        {"type": "array", "items": {"$ref": "#/$defs/x"}},
    ],
)
def test_what_a_grammar_leaves_open_is_not(root: Schema) -> None:
    assert not written(root, x={"type": "object"})[1]


def test_objects_in_any_order_are_left_to_others() -> None:
    assert written(OBJECT, any_order=True) == (
        {"type": "object", "patternProperties": {"^a$": {"type": "string"}}, "additionalProperties": False},
        False,
    )


def test_only_definitions_that_are_needed_are_written() -> None:
    schema, _ = written({"$ref": "#/$defs/used"}, used=OBJECT, unused={"oneOf": [True]})
    assert schema == {"$ref": "#/$defs/used", "$defs": {"used": OBJECT}}


def test_no_keyword_that_applies_in_place_stands_between_names_and_what_closes_them() -> None:
    part: Schema = {"required": ["a"]}
    root = {"additionalProperties": False, "anyOf": [part], "patternProperties": {"b": True}, "type": "object"}
    assert list(written(root)[0]) == ["additionalProperties", "patternProperties", "type", "anyOf"]
    root = {"additionalProperties": False, "anyOf": [part], "properties": {"a": True}, "allOf": [part]}
    assert list(written(root)[0]) == ["anyOf", "additionalProperties", "properties", "allOf"]


def test_a_deep_schema_is_cut_into_definitions_of_names_that_are_free() -> None:
    root: Schema = {"type": "null"}
    for _ in range(50):
        root = {"type": "array", "items": root}
    schema, is_exact = written(root, piece0={"type": "null"})
    assert is_exact
    assert set(schema["$defs"]) == {"piece0_", "piece1"}


def test_many_conditions_are_left_out_because_their_alternatives_multiply() -> None:
    def condition(name: str) -> Schema:
        return {"if": {"properties": {name: {"const": True}}}, "then": {"required": ["z"]}}

    declared = {"properties": dict.fromkeys("abcz", True)}
    few, _ = written({**declared, "allOf": [condition("a"), condition("b")]})
    many, _ = written({**declared, "allOf": [condition("a"), condition("b"), condition("c")]})
    assert len(few["allOf"]) == 2
    assert many == declared


@pytest.mark.parametrize("omission", ["recursion", "merging", "details"])
def test_where_parts_are_left_out_keys_come_in_any_order(omission: Omission) -> None:
    root = {**OBJECT, "allOf": [{"properties": {"b": True}}]}
    assert "patternProperties" in written(root, omission)[0]


def test_details_are_left_out_and_so_is_what_lies_deep() -> None:
    root: Schema = {"type": "string", "pattern": "a"}
    for _ in range(9):
        root = {"type": "array", "items": root, "minItems": 1}
    schema, is_exact = written(root, "details")
    assert not is_exact
    assert str(schema).count("'items'") == 5
    assert "minItems" not in str(schema)
