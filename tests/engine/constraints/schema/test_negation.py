from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.negation import all_of, any_of, negated

ALL = ["null", "boolean", "object", "array", "string", "number"]


@pytest.mark.parametrize(
    ("schema", "opposite"),
    [
        (True, False),
        (False, True),
        ({"type": "string"}, {"type": ["null", "boolean", "object", "array", "number"]}),
        ({"type": ALL}, False),
        ({"const": None}, {"type": ALL[1:]}),
        ({"not": {"type": "null"}}, {"type": "null"}),
        ({"required": ["a"]}, {"type": "object", "properties": {"a": False}}),
        ({"minLength": 3}, {"type": "string", "maxLength": 2}),
        ({"maximum": 5}, {"type": "number", "exclusiveMinimum": 5}),
        (
            {"anyOf": [{"minItems": 2}, {"const": None}]},
            {"allOf": [{"type": "array", "maxItems": 1}, {"type": ALL[1:]}]},
        ),
    ],
)
def test_what_can_be_negated_is_negated_exactly(schema: Schema, opposite: Schema) -> None:
    assert negated(schema) == (opposite, True)


@pytest.mark.parametrize(
    "schema", [{"type": "integer"}, {"const": 7}, {"pattern": "a"}, {"$ref": "#/$defs/x"}, {"oneOf": []}]
)
def test_what_has_no_opposite_is_marked_as_looser(schema: Schema) -> None:
    assert negated(schema)[1] is False


scalars = st.sampled_from([None, True, False, 0, 1, 1.5, "", "a", "ab"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner)
)
counts = st.integers(0, 2)
types = st.sampled_from([*ALL, "integer"])


def compound(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": types,
        "const": scalars,
        "enum": st.lists(scalars, min_size=1, max_size=3),
        "required": st.lists(st.sampled_from("ab"), min_size=1, max_size=2, unique=True),
        "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        "minimum": counts,
        "exclusiveMaximum": counts,
        "minLength": counts,
        "maxItems": counts,
        "minProperties": counts,
        "items": inner,
        "not": inner,
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
    }
    return st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=3, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({keyword: keywords[keyword] for keyword in chosen})
    )


schemas: st.SearchStrategy[Schema] = st.recursive(st.booleans(), compound, max_leaves=5)


@given(schemas, values)
def test_a_value_is_valid_under_a_schema_or_its_opposite(schema: Schema, value: Any) -> None:
    opposite, is_exact = negated(schema)
    is_valid = Draft202012Validator(schema).is_valid(value)
    is_opposite = Draft202012Validator(opposite).is_valid(value)
    assert is_valid or is_opposite
    if is_exact:
        assert is_valid != is_opposite


def test_unions_and_intersections_lose_what_says_nothing() -> None:
    assert any_of([False, {"type": "null"}]) == {"type": "null"}
    assert any_of([{"type": "null"}, True]) is True
    assert any_of([False]) is False
    assert all_of([True, {"type": "null"}]) == {"type": "null"}
    assert all_of([{"type": "null"}, False]) is False
    assert all_of([True]) is True
