from typing import Any

import pytest

from sureact.constraints.engines.xgrammar_keywords import xgrammar_fault

TAKEN: list[dict[str, Any]] = [
    {},
    {"type": "string", "minLength": 1, "title": "t"},
    {"type": ["string", "null"], "pattern": "^(?:a)$"},
    {"type": "string", "format": "uuid"},
    {"type": "integer", "minimum": 0, "maximum": 9},
    {"type": "integer", "multipleOf": 3},
    {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False},
    {"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": False},
    {"type": "object", "propertyNames": {"pattern": "a"}},
    {"type": "array", "items": {}, "minItems": 1},
    {"$ref": "#/$defs/a", "$defs": {"a": {}}},
    {"enum": ["a"], "type": "string"},
    {"anyOf": [{}, {}]},
    {"allOf": [{}]},
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"type": "array", "uniqueItems": True}, "uniqueItems"),
    ({"oneOf": [{}]}, "oneOf"),
    ({"not": {}}, "not"),
    ({"unknown": 1}, "unknown"),
    ({"minLength": 1}, "minLength"),
    ({"type": "integer", "minLength": 1}, "minLength"),
    ({"type": "string", "minLength": 1, "pattern": "a"}, "minLength"),
    ({"type": "string", "pattern": "a(?=b)"}, "pattern"),
    ({"type": "object", "patternProperties": {"(?!a)": {}}}, "patternProperties"),
    ({"type": "string", "format": "date"}, "format"),
    ({"type": "string", "format": "uuid", "pattern": "a"}, "format"),
    ({"type": "number", "multipleOf": 3}, "multipleOf"),
    ({"type": "integer", "multipleOf": 0.5}, "multipleOf"),
    ({"type": "integer", "multipleOf": 3, "minimum": 0}, "multipleOf"),
    ({"type": "object", "required": ["a"]}, "required"),
    ({"type": "object", "minProperties": 1}, "minProperties"),
    ({"type": "object", "properties": {"a": {}}, "patternProperties": {"a": {}}}, "patternProperties"),
    ({"type": "object", "patternProperties": {"a": {}, "b": {}}}, "patternProperties"),
    ({"type": "object", "patternProperties": {"a": {}}, "additionalProperties": {"const": 1}}, "additionalProperties"),
    ({"type": "object", "properties": {"a": {}}, "propertyNames": {}}, "propertyNames"),
    ({"$ref": "#/$defs/a", "type": "integer"}, "type"),
    ({"$ref": "http://example.com"}, "$ref"),
    ({"anyOf": [{}], "type": "object"}, "type"),
    ({"allOf": [{}, {}]}, "allOf"),
    ({"enum": [1], "type": "string"}, "type"),
    ({"const": 1, "minimum": 3}, "minimum"),
]


@pytest.mark.parametrize("schema", TAKEN, ids=str)
def test_what_xgrammar_enforces_is_taken(schema: dict[str, Any]) -> None:
    assert xgrammar_fault(schema) is None


@pytest.mark.parametrize(("schema", "keyword"), REFUSED, ids=str)
def test_what_xgrammar_drops_is_found(schema: dict[str, Any], keyword: str) -> None:
    fault = xgrammar_fault(schema)
    assert fault is not None
    assert fault.keyword == keyword
