"""`|` stands before the character that makes a value invalid for good; all before it is let through."""

from collections.abc import Callable

import pytest

from sureact.constraints.guards.json_guard import JsonGuard
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import NormalSchema

Written = Callable[[Schema, str], str]
STRING: Schema = {"type": "string"}
SHORT: Schema = {"maxLength": 2}
CONDITION: Schema = {"if": {"properties": {"k": {"const": "a"}}, "required": ["k"]}, "then": {"required": ["x"]}}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"allOf": [STRING, SHORT]}, '"ab|c'),
        ({"allOf": [STRING, {"type": "integer"}]}, "|1"),
        ({"anyOf": [{"const": "ab"}, {"const": "ac"}]}, '"a|d'),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, '{"c":1|}'),
        ({"anyOf": [{"type": "null"}, {"items": {"type": "null"}, "type": "array"}]}, "[null,|1"),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, '{"a":1,"b|"'),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "{|}"),
        ({"oneOf": [{"maxProperties": 1}, {"minProperties": 1}]}, '{"a":1|}'),
        ({"oneOf": [STRING, SHORT]}, '"ab|"'),
        ({"oneOf": [STRING, {}]}, '|"'),
        ({"not": STRING}, '|"'),
        ({"not": {"const": "ab"}}, '"ab|"'),
        ({"not": {"required": ["a"]}}, '{"b":1,"a|"'),
        ({"not": {"not": SHORT}}, '"ab|c'),
        ({"not": {"enum": [[1, 2]]}}, "[1,2|]"),
        ({"items": {"not": {"const": 1}}}, "[2,1|,"),
        (CONDITION, '{"k":"a"|}'),
        ({"if": STRING, "then": SHORT, "else": {"type": "null"}}, '"ab|c'),
        ({"if": STRING, "then": SHORT, "else": {"type": "null"}}, "|1"),
        ({"if": {"minLength": 2}, "then": {"pattern": "^b"}, "else": {"pattern": "^c"}}, '"|a'),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, '{"a":1|}'),
        ({"dependentSchemas": {"a": {"properties": {"b": STRING}}}}, '{"a":1,"b":|1'),
        ({"dependentSchemas": {"a": {"properties": {"b": STRING}}}}, '{"b":1,"a|"'),
        ({"dependentSchemas": {"a": False}}, '{"a|"'),
        ({"not": {"pattern": "^a"}}, '"|ab'),
        ({"not": {"pattern": "a"}}, '"bb|ab'),
        ({"not": {"pattern": "a$"}}, '"ba|"'),
        ({"not": {"pattern": ""}}, '|"'),
        ({"not": {"not": {"pattern": "^a"}}}, '"|b'),
        ({"not": {"minLength": 2, "pattern": "a"}}, '"a|b'),
        ({"not": {"anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]}}, '"|b'),
        ({"if": {"pattern": "^a"}, "then": {"maxLength": 2}, "else": {"maxLength": 5}}, '"ab|c'),
        ({"if": {"pattern": "^a"}, "then": {"pattern": "^ab"}}, '"a|c'),
        ({"oneOf": [{"pattern": "^a"}, {"pattern": "^ab"}]}, '"a|b'),
        ({"oneOf": [{"pattern": "^a"}, {"pattern": "b$"}]}, '"acb|"'),
    ],
)
def test_a_value_is_refused_where_it_becomes_invalid(written: Written, schema: Schema, text: str) -> None:
    accepted, _, refused = text.partition("|")
    assert written(schema, accepted + refused).rstrip(".") == accepted


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"allOf": [STRING, SHORT]}, '"ab"'),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, '{"a":1,"b":2}'),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, '{"c":1,"b":2}'),
        ({"oneOf": [STRING, SHORT]}, '"abc"'),
        ({"not": {"const": "ab"}}, '"abc"'),
        ({"not": {"properties": {"a": STRING}}}, '{"a":1}'),
        (CONDITION, '{"k":"a","x":1}'),
        (CONDITION, '{"k":"b"}'),
        (CONDITION, "{}"),
        ({"if": {"minLength": 2}, "then": {"pattern": "^b"}, "else": {"pattern": "^c"}}, '"c"'),
        ({"if": {"minLength": 2}, "then": {"pattern": "^b"}, "else": {"pattern": "^c"}}, '"bc"'),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, '{"b":1}'),
        ({"dependentSchemas": {"a": False}}, '["a"]'),
    ],
)
def test_a_valid_value_is_let_through(written: Written, schema: Schema, text: str) -> None:
    assert written(schema, text) == text + "."


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("null", True),
        ('{"next":{"next":null}}', True),
        ('{"next":{"next":1}}', False),
        ('{"next":null,"id":"a"}', False),
    ],
)
def test_a_reference_is_what_it_points_to_however_deep(text: str, is_valid: bool) -> None:
    node = {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}]}
    schema = {"$ref": "#/$defs/node", "properties": {"id": {"type": "integer"}}}
    state = JsonGuard(NormalSchema(schema, {"node": node})).new_state()
    assert (state.feed(text.encode()) and state.can_end()) == is_valid
