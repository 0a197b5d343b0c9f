from typing import Any

import pytest

from sureact.constraints.schema.check import check_schema
from sureact.errors import ConstraintCompileError, UnsupportedSchemaError


@pytest.mark.parametrize(
    ("schema", "keyword", "pointer"),
    [
        ({"uniqueItems": True}, "uniqueItems", "/uniqueItems"),
        ({"properties": {"a/b": {"not": {}}}}, "not", "/properties/a~1b/not"),
        ({"anyOf": [True, {"items": {"if": {}, "then": {}}}]}, "if", "/anyOf/1/items/if"),
        ({"$defs": {"d": {"contains": {}}}}, "contains", "/$defs/d/contains"),
        ({"dependentRequired": {"a": ["b"]}}, "dependentRequired", "/dependentRequired"),
        ({"unevaluatedProperties": False}, "unevaluatedProperties", "/unevaluatedProperties"),
        ({"propertyNames": {"pattern": "^a"}}, "propertyNames", "/propertyNames"),
        ({"$dynamicRef": "#x"}, "$dynamicRef", "/$dynamicRef"),
        ({"items": {"$ref": "http://other/schema"}}, "$ref", "/items/$ref"),
        ({"minLenght": 2}, "minLenght", "/minLenght"),
        ({"properties": {"a": {}}, "maxProperties": 1}, "maxProperties", "/maxProperties"),
        ({"properties": {"a": {}}, "minProperties": 1}, "minProperties", "/minProperties"),
        ({"items": {"oneOf": [{"minimum": 1}, {"maximum": 2}]}}, "oneOf", "/items/oneOf"),
        ({"nullable": True, "allOf": [{"not": {}}]}, "not", "/allOf/0/not"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "$schema", "/$schema"),
        ({"$schema": "http://example.com/own"}, "$schema", "/$schema"),
    ],
)
def test_what_cannot_be_enforced_is_named_with_its_place(schema: Any, keyword: str, pointer: str) -> None:
    with pytest.raises(UnsupportedSchemaError) as caught:
        check_schema(schema)
    assert (caught.value.keyword, caught.value.pointer) == (keyword, pointer)
    assert pointer in str(caught.value)


def test_a_misspelled_keyword_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnsupportedSchemaError, match="Did you mean 'minLength'"):
        check_schema({"minLenght": 2})


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"title": "t", "description": "d", "default": 1, "examples": [1], "deprecated": True, "$comment": "c"},
        {"x-order": 1, "readOnly": True, "example": 2, "externalDocs": {}, "xml": {}},
        {"type": "string", "nullable": True, "format": "int128"},
        {"uniqueItems": False, "minContains": 1, "if": {}},
        {"properties": {"not": {}, "if": {}}, "enum": [{"not": 1}]},
        {"$id": "http://a/b", "$defs": {"d": {"$id": "http://a/c"}}, "$ref": "http://a/c"},
        {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True},
        {"properties": {"a": {}, "b": {}}, "required": ["a"], "minProperties": 1},
        {"oneOf": [{"type": "string"}, {"type": "null"}]},
    ],
)
def test_annotations_and_keywords_that_ask_for_nothing_pass(schema: Any) -> None:
    check_schema(schema)


@pytest.mark.parametrize("schema", [{"type": "strnig"}, {"required": "a"}, {"items": {"minimum": "1"}}, {"anyOf": []}])
def test_a_malformed_schema_is_a_compile_error(schema: Any) -> None:
    with pytest.raises(ConstraintCompileError, match="Not a valid JSON schema"):
        check_schema(schema)


def test_the_place_of_a_malformed_keyword_is_named() -> None:
    with pytest.raises(ConstraintCompileError, match="at /items/minimum: '1' is not of type 'number'"):
        check_schema({"items": {"minimum": "1"}})


@pytest.mark.parametrize("draft", [5, ["x"], None, {}])
def test_a_draft_that_is_no_address_is_malformed(draft: object) -> None:
    with pytest.raises(ConstraintCompileError, match="/\\$schema"):
        check_schema({"$schema": draft})
    with pytest.raises(ConstraintCompileError, match="/\\$schema"):
        check_schema({"items": {"$schema": draft}})
