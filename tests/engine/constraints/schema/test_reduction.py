from typing import Any

import pytest

from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.reduction import merged_into_one, recursive_names, skeleton, without_recursion

NODE: dict[str, Any] = {"$ref": "#/$defs/node"}


def test_definitions_that_contain_themselves_are_found() -> None:
    definitions: dict[str, Schema] = {
        "node": {"properties": {"next": {"anyOf": [NODE, {"type": "null"}]}}},
        "outside": {"items": NODE},
        "leaf": {"type": "null"},
        "left": {"items": {"$ref": "#/$defs/right"}},
        "right": {"items": [{"$ref": "#/$defs/left"}, {"$ref": "#/$defs/leaf"}]},
    }
    assert recursive_names(definitions) == {"node", "left", "right"}


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        ({"$ref": "#/$defs/node"}, {"$ref": "#/$defs/node"}),
        ({"$ref": "#/$defs/node", "minProperties": 1}, NODE),
        ({"$ref": "#/$defs/leaf", "minLength": 1}, {"$ref": "#/$defs/leaf", "minLength": 1}),
        ({"type": "object", "anyOf": [NODE, {"type": "null"}]}, {"type": "object"}),
        ({"anyOf": [NODE, {"type": "null"}]}, {"anyOf": [NODE, {"type": "null"}]}),
        ({"type": "object", "allOf": [{"anyOf": [NODE]}, {"required": ["a"]}]}, None),
    ],
)
def test_nothing_is_merged_with_what_contains_itself(schema: dict[str, Any], kept: Schema | None) -> None:
    reduced = without_recursion(schema, frozenset({"node"}))
    assert reduced == (kept if kept is not None else {"type": "object", "allOf": [{"required": ["a"]}]})


def test_what_needs_no_change_stays_the_same_object() -> None:
    schema = {"type": "object", "allOf": [{"required": ["a"]}]}
    assert without_recursion(schema, frozenset({"node"})) is schema
    assert merged_into_one(NODE) is NODE


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        ({"type": "object", "allOf": [NODE]}, {"type": "object"}),
        ({"minLength": 1, "$ref": "#/$defs/node"}, NODE),
        ({"minLength": 1, "anyOf": [NODE]}, {"anyOf": [NODE]}),
        ({"allOf": [True, NODE, {"type": "null"}]}, NODE),
        ({"allOf": [True]}, True),
    ],
)
def test_one_part_stands_for_all_that_would_be_merged(schema: dict[str, Any], kept: Schema) -> None:
    assert merged_into_one(schema) == kept


def test_a_skeleton_is_open_to_the_names_whose_patterns_it_loses() -> None:
    closed = {"type": "object", "required": ["a"], "maxProperties": 3, "additionalProperties": False}
    assert skeleton(closed) == {"type": "object", "required": ["a"], "additionalProperties": False}
    assert skeleton({**closed, "patternProperties": {"b": True}}) == {"type": "object", "required": ["a"]}
    assert skeleton({"allOf": [True]}) is True
