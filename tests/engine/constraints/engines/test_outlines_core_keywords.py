import re
from typing import Any

import pytest

from sureact.constraints.engines.outlines_core_keywords import outlines_core_fault, refuse_open_end, refuse_references
from sureact.errors import UnsupportedSchemaError

TAKEN: list[dict[str, Any]] = [
    {"type": "string", "minLength": 1},
    {"type": "string", "format": "uuid"},
    {"type": ["string", "null"]},
    {"type": "array", "items": {}, "maxItems": 3},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False},
    {"enum": [1, "a"]},
    {"const": [1]},
    {"$ref": "#/$defs/a", "$defs": {"a": {}}},
    {"anyOf": [{}, {}], "title": "t"},
    {"allOf": [{}]},
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "type"),
    ({"title": "t"}, "type"),
    ({"type": "integer", "minimum": 0}, "minimum"),
    ({"type": "string", "pattern": "a"}, "pattern"),
    ({"type": "string", "format": "date"}, "format"),
    ({"type": "string", "format": "uuid", "minLength": 1}, "format"),
    ({"type": ["string", "null"], "minLength": 1}, "minLength"),
    ({"type": "array", "prefixItems": [{}]}, "prefixItems"),
    ({"type": "object", "required": ["a"]}, "required"),
    ({"properties": {"a": {}}, "required": ["b"]}, "required"),
    ({"properties": {"a": {}}, "maxProperties": 1}, "maxProperties"),
    ({"properties": {"a": {}}, "type": ["object", "null"]}, "type"),
    ({"properties": {'a"b': {}}}, "properties"),
    ({"anyOf": [{}], "type": "string"}, "type"),
    ({"oneOf": [{}]}, "oneOf"),
    ({"allOf": [{}, {}]}, "allOf"),
    ({"enum": [1], "type": "string"}, "type"),
    ({"const": [{"a": 1}]}, "const"),
    ({"$ref": "#/$defs/a", "type": "string"}, "type"),
]


@pytest.mark.parametrize("schema", TAKEN, ids=str)
def test_what_outlines_core_enforces_is_taken(schema: dict[str, Any]) -> None:
    assert outlines_core_fault(schema) is None


@pytest.mark.parametrize(("schema", "keyword"), REFUSED, ids=str)
def test_what_outlines_core_drops_is_found(schema: dict[str, Any], keyword: str) -> None:
    fault = outlines_core_fault(schema)
    assert fault is not None
    assert fault.keyword == keyword


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "#/$defs/gone"}, "/$ref"),
        ({"$ref": "#"}, "/$ref"),
        ({"properties": {"a": {"$ref": "#/properties/b"}}}, "/properties/a/$ref"),
        ({"$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"items": {"$ref": "#/$defs/a"}}}}, "/$defs/a"),
    ],
    ids=str,
)
def test_cycles_and_references_with_paths_are_refused(schema: dict[str, Any], pointer: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match=f"at {re.escape(pointer)} cannot") as refused:
        refuse_references(schema)
    assert (refused.value.keyword, refused.value.pointer) == ("$ref", pointer)


def test_a_definition_may_refer_to_another() -> None:
    refuse_references({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"type": "null"}}})


def test_a_number_cannot_be_the_whole_text() -> None:
    with pytest.raises(UnsupportedSchemaError, match="stands alone"):
        refuse_open_end({"type": ["null", "number"]})
    refuse_open_end({"enum": [1, 12], "type": "integer"})
    refuse_open_end({"type": "object"})
