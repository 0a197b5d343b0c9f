"""`|` stands before the character that makes an array invalid for good; all before it is let through."""

from collections.abc import Callable

import pytest

from sureact.constraints.guards.json_guard import JsonGuard
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import NormalSchema

Written = Callable[[Schema, str], str]
INTEGERS = {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"items": {"type": "string"}}, '["a",|1'),
        ({"items": False}, "[|1"),
        ({"prefixItems": [{"const": "a"}], "items": INTEGERS}, '["a",|"'),
        ({"prefixItems": [{}, False]}, "[1|,"),
        ({"prefixItems": [{}], "items": False}, "[1|,"),
        ({"maxItems": 1}, "[1|,"),
        ({"maxItems": 0}, "[|1"),
        ({"minItems": 2}, "[1|]"),
        ({"minItems": 1}, "[|]"),
        ({"uniqueItems": True}, '["a","b","a|"'),
        ({"uniqueItems": True}, r'["a","\u0061|"'),
        ({"uniqueItems": True}, "[1,1|,"),
        ({"uniqueItems": True}, "[1,2,1.0|]"),
        ({"uniqueItems": True}, '[{"a":1,"b":2},{"b":2,"a":1|}'),
        ({"uniqueItems": True}, "[[],[|]"),
        ({"uniqueItems": True}, "[null,|n"),
        ({"uniqueItems": True, "items": {"type": "integer", "minimum": 9, "maximum": 11}}, "[9,11,1|1"),
        ({"uniqueItems": True, "items": {"anyOf": [{"const": "ab"}, {"type": "null"}]}}, '["ab",|"'),
        ({"uniqueItems": True, "items": {"type": ["boolean", "null"]}}, "[true,null,false|,"),
        ({"contains": {"const": 5}}, "[1|]"),
        ({"contains": {"const": 5}}, "[|]"),
        ({"contains": {"type": "string"}, "minContains": 2}, '["a",1|]'),
        ({"contains": {"type": "string"}, "maxContains": 1}, '["a",1,|"'),
        ({"contains": {"const": 5}, "maxContains": 1}, "[5,5|,"),
        ({"contains": {"pattern": "^a"}, "maxContains": 1}, '["a","|a'),
        ({"contains": {"type": "string"}, "maxItems": 2}, "[1,|2"),
        ({"contains": {"type": "string"}, "minContains": 2, "maxItems": 2}, "[|1"),
        ({"contains": {"const": True}, "minContains": 0, "maxContains": 0}, "[false,|t"),
        ({"contains": False, "minContains": 1, "maxItems": 3}, "[1,2,|3"),
    ],
)
def test_an_array_is_refused_where_it_becomes_invalid(written: Written, schema: Schema, text: str) -> None:
    accepted, _, refused = text.partition("|")
    assert written(schema, accepted + refused).rstrip(".") == accepted


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"items": INTEGERS, "prefixItems": [{"type": "string"}]}, '["a",1,2.0]'),
        ({"items": False}, "[]"),
        ({"items": False}, "{}"),
        ({"minItems": 2, "maxItems": 2}, "[[],[1,2,3]]"),
        ({"uniqueItems": True}, '[1,true,"1",[1],[true],{"a":1},{"a":true},null]'),
        ({"contains": {"const": 5}}, "[1, 5.0, 6]"),
        ({"contains": {"const": 5}, "minContains": 0}, "[1]"),
        ({"contains": {"const": 5}, "minContains": 2, "maxContains": 2}, "[5,1,5]"),
        ({"contains": {"items": {"const": 1}}, "maxContains": 1}, "[[1],[1,2],[3]]"),
    ],
)
def test_a_valid_array_is_let_through(written: Written, schema: Schema, text: str) -> None:
    assert written(schema, text) == text + "."


def test_unique_items_that_a_reference_lists_are_looked_ahead_to() -> None:
    colors = NormalSchema({"uniqueItems": True, "items": {"$ref": "#/$defs/c"}}, {"c": {"enum": ["red", "blue"]}})
    state = JsonGuard(colors).new_state()
    assert state.feed(b'["red","b')
    state = JsonGuard(colors).new_state()
    assert not state.feed(b'["red","r')
