from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sureact.constraints.schema.implication import is_implied, is_ruled_out
from sureact.constraints.schema.keywords import Schema

AROUND: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": True},
    "required": ["a", "b"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "branch",
    [
        True,
        {},
        {"required": ["a"]},
        {"type": "object", "required": ["b"]},
        {"properties": {"a": {"type": "integer"}}},
        {"properties": {"c": True}},
        {"properties": AROUND["properties"], "additionalProperties": False},
    ],
)
def test_what_only_repeats_is_implied(branch: Schema) -> None:
    assert is_implied(branch, AROUND)
    assert is_ruled_out({"not": branch}, AROUND)


@pytest.mark.parametrize(
    "branch",
    [
        False,
        {"required": ["c"]},
        {"type": "array"},
        {"properties": {"a": {"type": "string"}}},
        {"additionalProperties": False},
        {"properties": {"a": True}, "additionalProperties": False},
        {"unevaluatedProperties": False},
    ],
)
def test_what_says_more_is_not(branch: Schema) -> None:
    assert not is_implied(branch, AROUND)
    assert not is_ruled_out({"not": branch}, AROUND)


@pytest.mark.parametrize(
    ("branch", "around"),
    [
        ({"items": False}, {"prefixItems": [True], "items": False}),
        ({"contains": {"type": "null"}}, {"contains": {"type": "null"}, "minContains": 0}),
        ({"const": True}, {"const": 1}),
        ({"properties": {"a": {"enum": [0]}}}, {"properties": {"a": {"enum": [False]}}}),
        ({"then": {"minLength": 2}, "if": True}, {"if": {"type": "string"}, "then": {"minLength": 2}}),
    ],
)
def test_a_keyword_is_not_implied_where_it_stands_beside_others(branch: Schema, around: dict[str, Any]) -> None:
    assert not is_implied(branch, around)


NAMES = st.sampled_from(["a", "b"])
LEAVES = st.sampled_from([True, False, {"type": "integer"}, {"type": "string"}])
KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["object", "array", "integer"]),
    "properties": st.dictionaries(NAMES, LEAVES),
    "additionalProperties": LEAVES,
    "required": st.lists(NAMES, unique=True),
    "prefixItems": st.lists(LEAVES, min_size=1, max_size=2),
    "items": LEAVES,
    "contains": LEAVES,
    "minContains": st.integers(0, 2),
    "if": LEAVES,
    "then": LEAVES,
    "minimum": st.integers(0, 2),
    "unevaluatedProperties": st.just(False),
}
SCHEMAS = st.fixed_dictionaries({}, optional=KEYWORDS)
VALUES = st.recursive(
    st.sampled_from([None, 0, 1, "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner),
    max_leaves=5,
)


@given(SCHEMAS, SCHEMAS, st.sets(st.sampled_from(sorted(KEYWORDS))), VALUES)
def test_what_is_implied_holds_for_every_value_of_the_schema_around(
    around: dict[str, Any], branch: dict[str, Any], shared: set[str], value: Any
) -> None:
    branch |= {keyword: around[keyword] for keyword in shared & around.keys()}
    if is_implied(branch, around) and Draft202012Validator(around).is_valid(value):
        assert Draft202012Validator(branch).is_valid(value)
