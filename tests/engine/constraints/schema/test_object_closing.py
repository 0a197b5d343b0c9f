from collections.abc import Callable
from typing import Any

import pytest

from sureact.constraints.constraint import Constraint
from sureact.constraints.json_schema import json_schema
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import NormalSchema, normalize
from sureact.constraints.schema.object_closing import close_objects
from sureact.errors import ConstraintCompileError

INTEGER = {"type": "integer"}
Spells = Callable[[Constraint, str], bool]


def closed(schema: Schema) -> Schema:
    return close_objects(normalize(schema)).document


def test_objects_that_declare_properties_and_are_silent_on_extras_are_closed_at_every_depth() -> None:
    inner = {"type": "object", "properties": {"a": INTEGER}}
    schema: dict[str, Any] = {
        "$defs": {"d": inner},
        "properties": {"p": inner, "q": {"$ref": "#/$defs/d"}},
        "items": inner,
        "anyOf": [{"type": "null"}],
    }
    whole = closed(schema)
    assert isinstance(whole, dict)
    for part in (whole, whole["$defs"]["d"], whole["properties"]["p"], whole["items"]):
        assert part["additionalProperties"] is False


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "required": ["a"]},
        {"properties": {"a": INTEGER}, "additionalProperties": True},
        {"properties": {"a": INTEGER}, "additionalProperties": {"type": "string"}},
        {"allOf": [{"properties": {"a": INTEGER}}, {"additionalProperties": INTEGER}]},
        {"properties": {"a": INTEGER}, "unevaluatedProperties": INTEGER},
        {"not": {"properties": {"a": INTEGER}}},
        {"contains": {"properties": {"a": INTEGER}, "required": ["a"]}},
        True,
    ],
)
def test_objects_that_declare_nothing_or_say_what_may_come_stay_as_they_are(schema: Any) -> None:
    normal = normalize(schema)
    assert close_objects(normal) == normal


BASE = {"type": "object", "properties": {"a": INTEGER}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (
            {"allOf": [BASE, {"properties": {"b": INTEGER}}]},
            ['{"a": 1}', '{"a": 1, "b": 2}'],
            ['{"a": 1, "c": 2}', '{"a": "x"}', '{"b": 2}'],
        ),
        (
            {"$defs": {"base": BASE}, "allOf": [{"$ref": "#/$defs/base"}], "properties": {"b": INTEGER}},
            ['{"a": 1}', '{"a": 1, "b": 2}'],
            ['{"a": 1, "c": 2}', '{"b": 2}'],
        ),
        (
            {"$defs": {"base": BASE}, "$ref": "#/$defs/base", "properties": {"b": INTEGER}},
            ['{"a": 1}', '{"a": 1, "b": 2}'],
            ['{"a": 1, "c": 2}'],
        ),
        (
            {**BASE, "anyOf": [{"properties": {"b": INTEGER}, "required": ["b"]}, {"required": ["a"]}]},
            ['{"a": 1}', '{"a": 1, "b": 2}'],
            ['{"a": 1, "c": 2}'],
        ),
        (
            {"anyOf": [BASE, {"type": "object", "properties": {"b": INTEGER}}]},
            ['{"a": 1}', '{"b": 2}', "{}"],
            ['{"a": 1, "b": 2}', '{"c": 1}'],
        ),
        (
            {**BASE, "if": {"properties": {"a": {"const": 1}}}, "then": {"properties": {"b": INTEGER}}},
            ['{"a": 1}', '{"a": 1, "b": 2}', '{"a": 2, "b": "x"}'],
            ['{"a": 1, "b": "x"}', '{"a": 1, "c": 2}'],
        ),
        (
            {**BASE, "dependentSchemas": {"a": {"properties": {"b": INTEGER}, "required": ["b"]}}},
            ['{"a": 1, "b": 2}'],
            ['{"a": 1}', '{"a": 1, "b": 2, "c": 3}'],
        ),
        (
            {"allOf": [BASE, {"patternProperties": {"^x": INTEGER}}]},
            ['{"a": 1}', '{"a": 1, "x1": 2}'],
            ['{"a": 1, "y": 2}', '{"a": 1, "x1": "s"}'],
        ),
    ],
)
def test_what_applies_to_one_object_is_closed_as_a_whole(
    schema: Any, valid: list[str], invalid: list[str], spells: Spells
) -> None:
    constraint = json_schema(schema, additional_properties="closed")
    assert [text for text in valid if not spells(constraint, text)] == []
    assert [text for text in invalid if spells(constraint, text)] == []


def test_a_recursive_definition_is_closed_at_every_level(spells: Spells) -> None:
    node = {"type": "object", "properties": {"next": {"allOf": [{"$ref": "#/$defs/node"}, {"minProperties": 0}]}}}
    schema = {"$defs": {"node": node}, "$ref": "#/$defs/node"}
    constraint = json_schema(schema, additional_properties="closed")
    assert spells(constraint, '{"next": {"next": {}}}')
    assert not spells(constraint, '{"next": {"next": {"x": 1}}}')


def test_a_recursion_through_written_out_parts_ends() -> None:
    part = {"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": {"$ref": "#/$defs/whole"}}}]}
    base = {"properties": {"a": {"$ref": "#/$defs/whole"}}}
    assert closed({"$defs": {"base": base, "whole": part}, "$ref": "#/$defs/whole"})


@pytest.mark.parametrize("doublings", [5, 60])
def test_references_that_double_are_written_out_as_long_as_they_are_few(doublings: int) -> None:
    links: dict[str, Schema] = {
        f"d{number}": {"properties": {f"p{number}": True}, "allOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2}
        for number in range(doublings)
    }
    schema = NormalSchema({"$ref": "#/$defs/d0"}, {**links, f"d{doublings}": {"properties": {"x": True}}})
    if doublings == 5:
        closed = close_objects(schema).definitions["d0"]
        assert isinstance(closed, dict)
        assert closed["properties"].keys() == {"p0", "p1", "p2", "p3", "p4", "x"}
    else:
        with pytest.raises(ConstraintCompileError, match="more than 5,000 references to tell"):
            close_objects(schema)
