import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sureact.evaluation.conformance.reorder import key_reordering

A, B, C, D = ({"properties": {name: {"type": "integer"}}} for name in "abcd")
VALUE = {"e": 0, "d": 1, "c": 2, "b": 3, "a": 4}


def order(schema: Any, value: Any = VALUE, **options: Any) -> str:
    return "".join(key_reordering(schema, **options)(value))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"properties": {"a": {}, "b": {}}}, "abedc"),
        ({**A, "required": ["c", "b", "a"]}, "acbed"),
        ({**A, "allOf": [B, C]}, "abced"),
        ({"allOf": [B, C], **A}, "bcaed"),
        ({"$defs": {"x": B}, "$ref": "#/$defs/x", **A}, "baedc"),
        ({"definitions": {"x": B}, "allOf": [{"$ref": "#/definitions/x"}, A]}, "baedc"),
        ({"$defs": {"x": {"$anchor": "here", **C}}, "$ref": "#here"}, "cedba"),
        ({"anyOf": [{"properties": {"b": {"type": "string"}}}, C]}, "cedba"),
        ({"oneOf": [{"required": ["z"]}, {"properties": {"d": False}}]}, "decba"),
        ({"if": A, "then": B, "else": C}, "abedc"),
        ({"if": {"required": ["z"]}, "then": B, "else": C}, "cedba"),
        ({"if": True, "then": B, "else": C}, "bedca"),
        ({"if": False, "then": B, "else": C}, "cedba"),
        ({"dependentSchemas": {"a": B, "z": C}}, "bedca"),
        ({"dependentSchemas": {"a": B}, "if": C, **D, "allOf": [A]}, "dabce"),
        ({"$ref": "#", **A}, "aedcb"),
        ({"$ref": "http://nowhere.example/", **A}, "aedcb"),
        ({"$ref": "http://nowhere.example/", "anyOf": [{"$ref": "gone"}, A]}, "aedcb"),
        ({"properties": ["malformed"], "allOf": 3}, "edcba"),
        ({"const": dict(sorted(VALUE.items()))}, "abcde"),
        ({"enum": [3, {"a": 1}, dict(sorted(VALUE.items()))]}, "abcde"),
        ({"const": {"a": 1}}, "edcba"),
        (True, "edcba"),
    ],
)
def test_keys_come_in_the_order_of_the_schemas_text(schema: Any, expected: str) -> None:
    assert order(schema) == expected


def test_references_into_other_documents_order_too() -> None:
    resources: dict[str, Any] = {"http://example.com/x": {"$defs": {"inner": B}, "$ref": "#/$defs/inner"}}
    assert order({"$ref": "http://example.com/x"}, resources=resources) == "bedca"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"x": {"$ref": "#/$defs/ab"}}}, {"x": {"b": 1, "a": 2}}),
        ({"patternProperties": {"^x": {"$ref": "#/$defs/ab"}}}, {"x": {"b": 1, "a": 2}}),
        ({"additionalProperties": {"$ref": "#/$defs/ab"}}, {"x": {"b": 1, "a": 2}}),
        ({"unevaluatedProperties": {"$ref": "#/$defs/ab"}}, {"x": {"b": 1, "a": 2}}),
        ({"items": {"$ref": "#/$defs/ab"}}, [{"b": 1, "a": 2}]),
        ({"prefixItems": [True, {"$ref": "#/$defs/ab"}]}, [0, {"b": 1, "a": 2}]),
        ({"prefixItems": [True], "items": {"$ref": "#/$defs/ab"}}, [0, {"b": 1, "a": 2}]),
        ({"const": [{"a": 2, "b": 1}]}, [{"b": 1, "a": 2}]),
        ({"items": {"properties": {"x": {"$ref": "#/$defs/ab"}}}}, [{"x": {"b": 1, "a": 2}}]),
    ],
)
def test_values_inside_are_ordered_by_their_own_schemas(schema: Any, value: Any) -> None:
    defs = {"ab": {"properties": {"a": {}, "b": {}}}}
    assert '{"a": 2, "b": 1}' in json.dumps(key_reordering({"$defs": defs, **schema})(value))


def test_before_2020_12_a_list_of_items_comes_first() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"properties": {"a": {}}}],
        "additionalItems": {"properties": {"b": {}}},
    }
    value = [{"b": 1, "a": 2}, {"a": 1, "b": 2}]
    assert json.dumps(key_reordering(schema)(value)) == '[{"a": 2, "b": 1}, {"b": 2, "a": 1}]'


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-04/schema#", "https://example.com/unknown", 3])
def test_no_schema_is_too_strange(draft: object) -> None:
    assert order({"$schema": draft, **A}) == "aedcb"


KEYS = st.sampled_from("abcd")
VALUES = st.recursive(
    st.integers() | st.text() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=12
)
SCHEMAS = st.recursive(
    st.just({}) | st.sampled_from(["integer", "object", "array"]).map(lambda name: {"type": name}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(KEYS, inner),
            "required": st.lists(KEYS, unique=True),
            "additionalProperties": inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "oneOf": st.lists(inner, min_size=1, max_size=3),
            "allOf": st.lists(inner, min_size=1, max_size=3),
            "not": inner,
        },
    ),
    max_leaves=8,
)


@given(SCHEMAS, VALUES)
def test_the_value_is_the_same_and_as_valid_as_before(schema: Any, value: Any) -> None:
    reordered = key_reordering(schema)(value)
    assert reordered == value
    assert Draft202012Validator(schema).is_valid(reordered) == Draft202012Validator(schema).is_valid(value)
    assert json.dumps(key_reordering(schema)(reordered)) == json.dumps(reordered)
