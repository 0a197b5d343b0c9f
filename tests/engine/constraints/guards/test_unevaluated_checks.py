"""`|` stands before the character that makes a value invalid for good; all before it is let through."""

from collections.abc import Callable

import pytest

from sureact.constraints.guards.json_guard import JsonGuard
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import NormalSchema

Written = Callable[[Schema, str], str]
BRANCHES: Schema = {
    "anyOf": [
        {"properties": {"k": {"const": 1}, "a": True}},
        {"properties": {"k": {"const": 2}, "b": True}},
    ],
    "unevaluatedProperties": False,
}
DEPENDENT: Schema = {"dependentSchemas": {"b": {"properties": {"a": True, "b": True}}}, "unevaluatedProperties": False}
CONDITION: Schema = {
    "if": {"properties": {"k": {"const": 1}}, "required": ["k"]},
    "then": {"properties": {"a": True}},
    "else": {"properties": {"b": True}},
    "unevaluatedProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"properties": {"a": True}, "unevaluatedProperties": False}, '{"a":1,"b|"'),
        ({"patternProperties": {"^a": True}, "unevaluatedProperties": {"type": "null"}}, '{"ab":1,"b":|1'),
        ({"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False}, '{"a":1,"b|"'),
        ({"not": {"properties": {"a": False}}, "unevaluatedProperties": False}, '{"a|"'),
        (BRANCHES, '{"c|"'),
        (BRANCHES, '{"k":1,"a":1,"b|"'),
        (CONDITION, '{"k":1,"b|"'),
        (CONDITION, '{"b":1,"a":2|}'),
        (DEPENDENT, '{"c|"'),
        (DEPENDENT, '{"a":1|}'),
        ({"prefixItems": [True], "unevaluatedItems": False}, "[1|,"),
        ({"prefixItems": [True], "unevaluatedItems": {"type": "null"}}, "[1,|2"),
        ({"contains": {"type": "string"}, "unevaluatedItems": {"type": "null"}}, '["a",null,|1'),
        ({"anyOf": [{"prefixItems": [{"const": 1}, True]}, True], "unevaluatedItems": False}, "[|{"),
    ],
)
def test_a_value_is_refused_where_it_becomes_invalid(written: Written, schema: Schema, text: str) -> None:
    accepted, _, refused = text.partition("|")
    assert written(schema, accepted + refused).rstrip(".") == accepted


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"properties": {"a": True}, "unevaluatedProperties": False}, '{"a":{"b":1}}'),
        ({"additionalProperties": {"type": "integer"}, "unevaluatedProperties": False}, '{"a":1}'),
        ({"allOf": [{"unevaluatedProperties": True}], "unevaluatedProperties": False}, '{"a":1}'),
        (BRANCHES, '{"b":1,"k":2}'),
        (BRANCHES, '{"a":1,"b":1}'),
        (CONDITION, '{"k":1,"a":1}'),
        (CONDITION, '{"b":1}'),
        (DEPENDENT, '{"a":1,"b":2}'),
        (DEPENDENT, "1"),
        ({"dependentSchemas": {"a": True}, "unevaluatedItems": False}, "[]"),
        ({"prefixItems": [True], "unevaluatedItems": False}, "[1]"),
        ({"items": True, "unevaluatedItems": False}, "[1,2]"),
        ({"contains": {"type": "string"}, "unevaluatedItems": {"type": "null"}}, '[null,"a"]'),
        ({"anyOf": [{"prefixItems": [{"const": 1}, True]}, True], "unevaluatedItems": False}, "[1,3]"),
    ],
)
def test_a_valid_value_is_let_through(written: Written, schema: Schema, text: str) -> None:
    assert written(schema, text) == text + "."


def test_a_schema_that_applies_in_exponentially_many_ways_is_judged_once() -> None:
    definitions: dict[str, Schema] = {"d60": {"properties": {"a": True}}}
    for level in range(60):
        branch = {"$ref": f"#/$defs/d{level + 1}"}
        definitions[f"d{level}"] = {"allOf": [branch, branch]}
    schema = NormalSchema({"$ref": "#/$defs/d0", "unevaluatedProperties": False}, definitions)
    state = JsonGuard(schema).new_state()
    assert state.feed(b'{"a": 1')
    assert not state.feed(b', "b": 1}')
