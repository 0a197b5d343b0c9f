from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sureact.constraints.schema.disjointness import are_all_disjoint, are_disjoint
from sureact.constraints.schema.keywords import Schema


def tagged(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"kind": {"const": value}}, "required": ["kind"], **more}


DEFINITIONS: dict[str, Schema] = {
    "cat": tagged("cat"),
    "kind": {"enum": ["dog"]},
    "dog": {"type": "object", "properties": {"kind": {"$ref": "#/$defs/kind"}}, "required": ["kind"]},
}


@pytest.mark.parametrize(
    ("left", "right", "disjoint"),
    [
        ({"type": "integer"}, {"type": "string"}, True),
        ({"type": "integer"}, {"type": "number"}, False),
        ({"type": ["string", "null"]}, {"type": ["null", "array"]}, False),
        ({"const": 1}, {"enum": [2, 3]}, True),
        ({"const": 1}, {"enum": [1.0]}, False),
        ({"const": 1}, {"const": True}, True),
        ({"const": "1"}, {"type": "integer"}, True),
        ({"enum": [1.5]}, {"type": "integer"}, True),
        (tagged("a"), tagged("b"), True),
        (tagged("a"), tagged("a"), False),
        (tagged("a", required=[]), tagged("b"), False),
        ({**tagged("a"), "type": ["object", "null"]}, {**tagged("b"), "type": ["object", "null"]}, False),
        ({"properties": {"kind": {"const": 1}}, "required": ["kind"]}, tagged("b"), True),
        ({"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}, True),
        ({"allOf": [{"type": "string"}]}, {"type": "integer"}, True),
        ({"anyOf": [{"type": "string"}, {"const": 1}]}, {"enum": [2]}, True),
        ({"anyOf": [{"type": "string"}, {"const": 1}]}, {"enum": [1]}, False),
        ({"minimum": 1}, {"maximum": 0}, False),
        (False, {}, True),
        (True, {}, False),
    ],
)
def test_disjoint_means_proven(left: Schema, right: Schema, disjoint: bool) -> None:
    assert are_disjoint(left, right, DEFINITIONS) is disjoint
    assert are_disjoint(right, left, DEFINITIONS) is disjoint


values = st.sampled_from([None, True, False, 0, 1, 1.0, 1.5, "a", "b", [], [1], {}, {"kind": "a"}, {"kind": "b"}])
small_schemas: st.SearchStrategy[Schema] = st.one_of(
    st.fixed_dictionaries({"const": values}),
    st.fixed_dictionaries({"enum": st.lists(values, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"type": st.sampled_from(["null", "integer", "number", "string", "object", "boolean"])}),
    st.builds(tagged, st.sampled_from(["a", "b"])),
)
unions = st.fixed_dictionaries({"anyOf": st.lists(small_schemas, min_size=1, max_size=2)})
schemas: st.SearchStrategy[Schema] = st.one_of(small_schemas, unions)


@given(schemas, schemas, values)
def test_no_value_is_valid_under_two_disjoint_schemas(left: Schema, right: Schema, value: Any) -> None:
    if are_disjoint(left, right, {}):
        assert not (Draft202012Validator(left).is_valid(value) and Draft202012Validator(right).is_valid(value))


def test_many_branches_are_told_apart_by_one_tag() -> None:
    branches: list[Schema] = [tagged(f"tag {index}") for index in range(100)]
    assert are_all_disjoint(branches, {})
    assert not are_all_disjoint([*branches, tagged("tag 7")], {})
    assert not are_all_disjoint([*branches, tagged("tag 100", required=[])], {})
    assert are_all_disjoint(branches[:3], {})
