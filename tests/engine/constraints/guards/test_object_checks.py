"""`|` stands before the character that makes an object invalid for good; all before it is let through."""

from collections.abc import Callable

import pytest

from sureact.constraints.schema.keywords import Schema

Written = Callable[[Schema, str], str]
CLOSED: Schema = {"properties": {"ab": {}, "cd": {"type": "integer"}}, "additionalProperties": False}
PATTERN: Schema = {"patternProperties": {"^[xy]1?$": {"type": "null"}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, '{"a":1,"a|"'),
        ({}, r'{"a":1,"\u0061|"'),
        (CLOSED, '{"|b'),
        (CLOSED, '{"a|c'),
        (CLOSED, '{"a|"'),
        (CLOSED, r'{"\u006|2'),
        (CLOSED, '{"ab":1,"|a'),
        (CLOSED, '{"ab":1,"cd":2|,'),
        (CLOSED, '{"cd":|"'),
        (PATTERN, '{"|a'),
        (PATTERN, '{"x|2'),
        (PATTERN, '{"x1|1'),
        (PATTERN, '{"y":|1'),
        ({"additionalProperties": False}, '{|"'),
        ({"properties": {"a": False}, "additionalProperties": False}, '{|"'),
        ({"properties": {"a": False}}, '{"a|"'),
        ({"patternProperties": {"^a": False}}, '{"b":1,"|ab'),
        ({"patternProperties": {"b$": False}}, '{"ab|"'),
        ({"properties": {"ab": {}}, "patternProperties": {"b": False}}, '{"a|b'),
        ({**PATTERN, "patternProperties": {"^[xy]": True, "^x": False}}, '{"y":1,"|x'),
        ({"propertyNames": {"not": {"pattern": "^a"}}}, '{"b":1,"|a'),
        ({"properties": {"a": {"type": "string"}}, "patternProperties": {"a": {"maxLength": 1}}}, '{"a":"b|c'),
        ({"additionalProperties": {"type": "integer"}}, '{"a":1,"b":|t'),
        ({"propertyNames": False}, '{|"'),
        ({"propertyNames": {"maxLength": 1}}, '{"a|b'),
        ({"propertyNames": {"enum": ["ab", "cd"]}}, '{"|b'),
        ({"propertyNames": {"pattern": "^a"}}, '{"ab":1,"|b'),
        ({"propertyNames": {"minLength": 1}}, '{"|"'),
        ({"required": ["a"]}, "{|}"),
        ({"required": ["a", "b"]}, '{"b":1|}'),
        ({"dependentRequired": {"a": ["b"]}}, '{"a":1|}'),
        ({"dependentRequired": {"a": ["b"]}}, '{"a":1,"c":2|}'),
        ({"minProperties": 1}, "{|}"),
        ({"maxProperties": 1}, '{"a":1|,'),
        ({"maxProperties": 0}, '{|"'),
        ({"maxProperties": 2, "required": ["a", "b"]}, '{"|c'),
        ({"maxProperties": 2, "required": ["b"]}, '{"a":1,"|c'),
    ],
)
def test_an_object_is_refused_where_it_becomes_invalid(written: Written, schema: Schema, text: str) -> None:
    accepted, _, refused = text.partition("|")
    assert written(schema, accepted + refused).rstrip(".") == accepted


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (CLOSED, '{"cd":1,"ab":{"ab":1,"zz":2}}'),
        (CLOSED, r'{"\u0061b":1}'),
        (CLOSED, "[]"),
        (PATTERN, '{"x":null,"y1":null}'),
        ({"properties": {"a": {"type": "string"}}}, '{"b":1,"a":"x"}'),
        ({"propertyNames": {"pattern": "^a"}}, '{"a":{"b":1},"ab":2}'),
        ({"required": ["a"]}, '{"b":1,"a":null}'),
        ({"required": ["a"]}, "1"),
        ({"dependentRequired": {"a": ["b"]}}, '{"a":1,"b":2}'),
        ({"dependentRequired": {"a": ["b"]}}, '{"c":1}'),
        ({"minProperties": 1, "maxProperties": 2}, '{"":{},"a":{"b":1,"c":2,"d":3}}'),
        ({"maxProperties": 2, "required": ["a", "b"]}, '{"b":1,"a":2}'),
    ],
)
def test_a_valid_object_is_let_through(written: Written, schema: Schema, text: str) -> None:
    assert written(schema, text) == text + "."
