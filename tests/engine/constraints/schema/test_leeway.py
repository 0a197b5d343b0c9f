from typing import Any

import pytest

from sureact.constraints.schema.leeway import Leeway, compile_error, proves_unsatisfiable

NODE = {"type": "object", "properties": {"x": {"$ref": "#/$defs/node", "minProperties": 1}}}


@pytest.mark.parametrize(
    ("schema", "omission"),
    [
        ({"properties": {"a": {}}, "minProperties": 1}, "counts"),
        ({"patternProperties": {"a": {}, "b": {}}}, "groups"),
        ({"type": "string", "pattern": "a(?=b)"}, "patterns"),
        ({"$ref": "#/$defs/node", "$defs": {"node": NODE}}, "recursion"),
        ({"oneOf": [{"minimum": 1}, {"maximum": 3}]}, "merging"),
    ],
)
def test_the_reason_says_what_to_leave_out(schema: dict[str, Any], omission: str) -> None:
    leeway = Leeway().after(schema)
    assert leeway is not None
    assert leeway.omitted == {omission}


def test_only_the_patterns_at_fault_are_left_out() -> None:
    leeway = Leeway().after({"properties": {"a": {"pattern": "a(?=b)"}, "b": {"pattern": "^b$"}}})
    assert leeway is not None
    assert leeway.bad_patterns == {"a(?=b)"}


def test_a_definition_that_allows_nothing_is_named() -> None:
    never = {"type": "object", "anyOf": [{"type": "string"}]}
    schema = {"properties": {"a": {"$ref": "#/$defs/never"}}, "$defs": {"never": never}}
    assert not proves_unsatisfiable(compile_error(schema))
    assert Leeway().after(schema) == Leeway(empty_definitions=frozenset({"never"}))


def test_a_root_that_allows_nothing_cannot_be_helped() -> None:
    assert proves_unsatisfiable(compile_error({"type": "object", "anyOf": [{"type": "string"}]}))
    assert compile_error({"type": "string"}) == ""


def test_the_last_leeway_is_followed_by_none() -> None:
    leeway: Leeway | None = Leeway()
    count = 0
    while leeway is not None:
        leeway = leeway.after({"oneOf": [{"minimum": 1}, {"maximum": 3}]})
        count += 1
    assert count == 3
    assert not Leeway(frozenset({"counts"})).loses_key_order
    assert Leeway(frozenset({"merging"})).loses_key_order


def test_a_reason_that_is_known_is_not_found_out_again() -> None:
    leeway = Leeway().after({}, "Unsupported: schema too large")
    assert leeway is not None
    assert leeway.omitted == {"unions"}
