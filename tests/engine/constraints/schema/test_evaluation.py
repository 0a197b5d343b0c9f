from typing import Any

import pytest

from sureact.constraints.schema.evaluation import evaluation
from sureact.constraints.schema.keywords import Schema

DEFINITIONS: dict[str, Schema] = {
    "base": {"properties": {"base": True}, "allOf": [{"$ref": "#/$defs/deeper"}]},
    "deeper": {"patternProperties": {"^x-": True}, "prefixItems": [True, True]},
    "open": {"additionalProperties": {"type": "string"}, "items": {"type": "string"}},
}


def test_what_applies_in_place_is_collected_in_order() -> None:
    found = evaluation({"properties": {"own": True}, "allOf": [{"$ref": "#/$defs/base"}]}, DEFINITIONS)
    assert list(found.names) == ["own", "base"]
    assert list(found.patterns) == ["^x-"]
    assert found.num_items == 2
    assert not found.has_all_properties
    assert not found.has_all_items
    assert not found.is_conditional


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"properties": {"a": True}}]},
        {"oneOf": [{"properties": {"a": True}}]},
        {"if": {"properties": {"a": True}}},
        {"if": True, "then": {"properties": {"a": True}}},
        {"if": True, "else": {"properties": {"a": True}}},
        {"dependentSchemas": {"b": {"properties": {"a": True}}}},
    ],
)
def test_what_depends_on_the_value_counts_and_is_told(schema: dict[str, Any]) -> None:
    found = evaluation(schema, DEFINITIONS)
    assert list(found.names) == ["a"]
    assert found.is_conditional


def test_an_open_part_evaluates_everything() -> None:
    found = evaluation({"$ref": "#/$defs/open"}, DEFINITIONS)
    assert found.has_all_properties
    assert found.has_all_items
    assert evaluation({"contains": True}, {}).has_all_items


def test_what_is_not_evaluated_or_forbidden_does_not_count() -> None:
    found = evaluation(
        {"unevaluatedProperties": True, "additionalProperties": False, "not": {"properties": {"a": True}}}, {}
    )
    assert found.names == {}
    assert not found.has_all_properties
