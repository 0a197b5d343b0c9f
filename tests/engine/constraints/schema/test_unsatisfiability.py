from typing import Any

import pytest

from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import NormalSchema
from sureact.constraints.schema.unsatisfiability import unsatisfiable


def place(root: Schema, **definitions: Schema) -> str | None:
    fault = unsatisfiable(NormalSchema(root, definitions))
    return None if fault is None else fault[1]


SIDES = {"type": "object", "properties": {"radius": {"type": "number"}, "length": {"type": "number"}}}
BOTH = {**SIDES, "required": ["radius", "length"], "oneOf": [{"required": ["radius"]}, {"required": ["length"]}]}


@pytest.mark.parametrize(
    ("root", "where"),
    [
        (False, ""),
        (BOTH, "/oneOf"),
        ({"type": "object", "properties": {"shape": BOTH}, "required": ["shape"]}, "/properties/shape/oneOf"),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, "/required"),
        ({"type": "object", "required": ["a", "b"], "maxProperties": 1}, "/maxProperties"),
        ({"type": "object", "minProperties": 1, "additionalProperties": False}, "/minProperties"),
        ({"type": "array", "minItems": 3, "maxItems": 2}, "/minItems"),
        ({"type": "array", "minItems": 3, "uniqueItems": True, "items": {"enum": [1, 2]}}, "/uniqueItems"),
        (
            {
                "type": "array",
                "minItems": 4,
                "uniqueItems": True,
                "items": {"type": "integer", "minimum": 1, "maximum": 3},
            },
            "/uniqueItems",
        ),
        ({"type": "array", "contains": True, "minContains": 3, "maxItems": 2}, "/maxItems"),
        ({"oneOf": [{"type": "string"}, {"type": "null"}, {"type": "null"}, {"type": "string"}]}, "/oneOf"),
        ({"type": "array", "contains": {"type": "string"}, "items": {"type": "integer"}}, "/contains"),
        ({"type": "array", "contains": {"type": "string"}, "prefixItems": [{"const": 1}], "items": False}, "/contains"),
        ({"const": 1, "not": {"const": 1}}, "/not"),
        ({"type": "string", "not": {"pattern": ""}}, "/not"),
        ({"type": "string", "pattern": "^a", "not": {"pattern": "^a"}}, "/not"),
        ({"type": "object", "required": ["ab"], "propertyNames": {"maxLength": 1}}, "/propertyNames"),
        ({"type": "array", "minItems": 1, "items": False}, "/items"),
        ({"type": "array", "minItems": 1, "prefixItems": [False]}, "/prefixItems/0"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "/minimum"),
        ({"type": "string", "enum": [1, None]}, ""),
        ({"type": ["string", "null"], "const": 1}, ""),
        ({"anyOf": [False, {"type": "string", "minLength": 2, "maxLength": 1}]}, "/anyOf"),
        ({**BOTH, "oneOf": [{"not": {"required": ["length"]}}, {"not": {"required": ["radius"]}}]}, "/oneOf"),
        ({"allOf": [True, False]}, "/allOf/1"),
    ],
)
def test_a_contradiction_is_found_with_its_place(root: Schema, where: str) -> None:
    assert place(root) == where


@pytest.mark.parametrize(
    "root",
    [
        True,
        {**SIDES, "required": ["radius"], "oneOf": [{"required": ["radius"]}, {"required": ["length"]}]},
        {"properties": {"shape": BOTH}},
        {"minItems": 3, "maxItems": 2},
        {"type": ["array", "null"], "minItems": 3, "maxItems": 2},
        {"type": "array", "minItems": 3, "uniqueItems": True, "prefixItems": [True], "items": {"enum": [1, 2]}},
        {"type": "array", "contains": True, "minContains": 0, "maxItems": 0},
        {"type": "integer", "enum": [1.0]},
        {"const": 1, "not": {"const": True}},
        {"oneOf": [{"const": 1}, {"const": True}]},
        {"type": "string", "pattern": "^a", "not": {"pattern": "^ab"}},
        {"oneOf": [{"type": "string"}, {"type": "null"}, {"type": "null"}]},
        {"type": "array", "contains": {"type": "string"}, "prefixItems": [True], "items": {"type": "integer"}},
        {"type": "array", "contains": {"type": "number"}, "items": {"type": "integer"}},
        {"type": "array", "contains": {"type": "string"}, "minContains": 0, "items": {"type": "integer"}},
        {"contains": {"type": "string"}, "items": {"type": "integer"}},
        {"required": ["ab"], "propertyNames": {"maxLength": 1}},
        {"type": "integer", "maximum": -5},
        {"anyOf": [False, True]},
        {"type": "object", "required": ["a"], "patternProperties": {"a": True}, "additionalProperties": False},
    ],
)
def test_what_can_be_satisfied_is_not_blamed(root: Schema) -> None:
    assert place(root) is None


def test_a_definition_that_each_value_needs_again_never_ends() -> None:
    node: dict[str, Any] = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/node"}},
        "required": ["next"],
    }
    assert place({"$ref": "#/$defs/node"}, node=node) == "/$defs/node"
    ending = {**node, "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}
    assert place({"$ref": "#/$defs/node"}, node=ending) is None
    chain = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/node"}}
    assert place(chain, node=node) == "/$defs/node"
    assert place({**chain, "minItems": 0}, node=node) is None


def test_shared_definitions_are_searched_once() -> None:
    definitions: dict[str, Schema] = {"d0": {"type": "null"}}
    for level in range(1, 60):
        part = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {"type": "object", "properties": {"a": part, "b": part}, "required": ["a", "b"]}
    assert unsatisfiable(NormalSchema({"$ref": "#/$defs/d59"}, definitions)) is None
