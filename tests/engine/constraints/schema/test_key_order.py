from typing import Any

import pytest

from sureact.constraints.schema.key_order import can_run_out_of_keys, in_any_order
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import NormalSchema

SIDES: dict[str, Any] = {"type": "object", "properties": {"a": True, "b": True}, "additionalProperties": False}
OPEN: dict[str, Any] = {"type": "object", "properties": {"a": True, "b": True}}


def test_declared_names_become_patterns_and_what_is_required_a_count() -> None:
    schema = {"type": "object", "properties": {"a.b": {"type": "null"}}, "required": ["a.b", "c"], "minProperties": 1}
    assert in_any_order(schema, grouped=False) == {
        "type": "object",
        "minProperties": 2,
        "patternProperties": {r"^a\.b$": {"type": "null"}},
    }


def test_a_name_that_a_pattern_governs_too_is_left_to_it() -> None:
    schema = {"properties": {"ab": True, "c": True}, "patternProperties": {"^a": {"type": "null"}}}
    assert in_any_order(schema, grouped=False) == {"patternProperties": {"^c$": True, "^a": {"type": "null"}}}


def test_a_name_that_no_pattern_can_spell_opens_the_object() -> None:
    schema = {"properties": {"\x7f": True, "a": True}, "additionalProperties": False}
    assert in_any_order(schema, grouped=False) == {"patternProperties": {"^a$": True}}


def test_many_names_with_equal_schemas_share_a_pattern() -> None:
    names = {f"name{index}": {"type": "string"} for index in range(30)}
    schema = {"properties": {**names, "other": {"type": "null"}}}
    patterns = in_any_order(schema, grouped=True)["patternProperties"]
    assert patterns == {f"^({'|'.join(names)})$": {"type": "string"}, "^other$": {"type": "null"}}
    assert len(in_any_order(schema, grouped=False)["patternProperties"]) == 31


def test_what_says_nothing_of_names_stays_the_same_object() -> None:
    schema = {"type": "object", "additionalProperties": False}
    assert in_any_order(schema, grouped=True) is schema


def test_however_many_names_there_are_the_patterns_stay_few() -> None:
    schema = {"properties": {f"name{index}": {"const": index} for index in range(130)}}
    patterns = in_any_order(schema, grouped=True)["patternProperties"]
    assert len(patterns) == 64
    assert patterns["^(name0|name64|name128)$"] == {"anyOf": [{"const": 0}, {"const": 64}, {"const": 128}]}


@pytest.mark.parametrize(
    ("root", "can_run_out"),
    [
        (SIDES, False),
        ({**SIDES, "minProperties": 1}, False),
        ({**SIDES, "minProperties": 2}, True),
        ({**SIDES, "minProperties": 2, "required": ["a", "b"]}, False),
        ({**SIDES, "minProperties": 2, "required": ["a"]}, False),
        ({**SIDES, "minProperties": 2, "required": ["b"]}, True),
        ({**SIDES, "minProperties": 2, "patternProperties": {"x": True}}, False),
        ({**SIDES, "minProperties": 2, "patternProperties": {"x": False}}, True),
        ({**OPEN, "minProperties": 2}, False),
        ({**OPEN, "minProperties": 2, "unevaluatedProperties": False}, True),
        ({"items": {"anyOf": [{**SIDES, "minProperties": 2}, {"type": "null"}]}}, True),
        ({"allOf": [SIDES, {"minProperties": 1}]}, True),
        ({"allOf": [OPEN, {"minProperties": 1}]}, False),
        ({"anyOf": [SIDES, {"type": "object", "minProperties": 1}]}, False),
        ({"$ref": "#/$defs/sides", "minProperties": 2}, True),
        ({"properties": {"x": {"$ref": "#/$defs/sides"}, "y": {"minProperties": 2}}}, False),
        ({"$ref": "#/$defs/tree"}, True),
    ],
)
def test_keys_in_their_order_can_run_out(root: Schema, can_run_out: bool) -> None:
    tree = {**SIDES, "minProperties": 2, "properties": {"a": {"$ref": "#/$defs/tree"}, "b": True}}
    assert can_run_out_of_keys(NormalSchema(root, {"sides": SIDES, "tree": tree})) == can_run_out
