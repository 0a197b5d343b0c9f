from typing import Any

import pytest

from sureact.constraints.schema.format_patterns import FORMAT_PATTERNS
from sureact.constraints.schema.preparation import prepare_schema, with_null

NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("schema", "prepared"),
    [
        (True, {}),
        (False, {"anyOf": []}),
        ({"title": "t", "x-guidance": {"lenient": True}, "type": "string"}, {"type": "string"}),
        ({"properties": {"title": {"title": "t"}}}, {"properties": {"title": {}}}),
        ({"enum": [{"title": 1}]}, {"enum": [{"title": 1}]}),
        ({"format": "int32"}, {}),
        ({"format": "email"}, {"format": "email"}),
        ({"format": "date"}, {"pattern": FORMAT_PATTERNS["date"]}),
        ({"format": "date", "pattern": "^2"}, {"pattern": "^2", "allOf": [{"pattern": FORMAT_PATTERNS["date"]}]}),
        ({"uniqueItems": False, "if": {}}, {}),
        ({"oneOf": [NULL, {"type": "string"}]}, {"anyOf": [NULL, {"type": "string"}]}),
        ({"oneOf": [NULL], "anyOf": [True]}, {"anyOf": [True], "allOf": [{"anyOf": [NULL]}]}),
        ({"type": "string", "nullable": True}, {"anyOf": [{"type": "string"}, NULL]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"allOf": [{"$ref": "#/a", "title": "t"}], "description": "d"}, {"$ref": "#/a"}),
        ({"required": ["a"], "minProperties": 1}, {"required": ["a"]}),
    ],
)
def test_a_schema_is_brought_into_what_a_grammar_can_hold(schema: Any, prepared: Any) -> None:
    assert prepare_schema(schema, closed=False) == prepared


def test_the_given_schema_is_not_changed() -> None:
    schema = {"properties": {"a": {"title": "t", "nullable": True}}}
    prepare_schema(schema, closed=True)
    assert schema == {"properties": {"a": {"title": "t", "nullable": True}}}


def test_objects_are_closed_only_when_asked() -> None:
    schema = {"properties": {"a": True}}
    assert prepare_schema(schema, closed=False) == schema
    assert prepare_schema(schema, closed=True) == {**schema, "additionalProperties": False}


def test_null_is_added_at_every_depth_and_definitions_stay_in_place() -> None:
    schema: Any = {"$defs": {"d": {"type": "string", "nullable": True}}, "$ref": "#/$defs/d", "nullable": True}
    definition = {"anyOf": [{"type": "string"}, NULL]}
    assert with_null(schema) == {"$defs": {"d": definition}, "anyOf": [{"$ref": "#/$defs/d"}, NULL]}
