from typing import Any

import pytest

from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.rewriting import GRAMMAR_KEYWORDS, rewritten


def rewrite(schema: dict[str, Any], *, any_order: bool = False, expand: bool = True) -> tuple[Schema, bool]:
    return rewritten(schema, {}, any_order=any_order, expand=expand)


NAMES = {"properties": {"a": True, "b": True}}
CLOSED = {"properties": {"a": True}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"oneOf": [{"type": "null"}, {"const": 1}]}, {"anyOf": [{"type": "null"}, {"const": 1}]}),
        ({"type": ["null", "string"], "not": {"type": "null"}}, None),
        ({"enum": [1, 2, "a"], "not": {"enum": [2.0, None]}}, {"enum": [1, "a"]}),
        ({"not": {"not": {"type": "null"}}}, {"allOf": [{"type": "null"}]}),
        ({"not": True}, False),
        (
            {**NAMES, "dependentRequired": {"a": ["b"]}},
            {**NAMES, "allOf": [{"anyOf": [{"properties": {"a": False}}, {"required": ["b"]}]}]},
        ),
        (
            {**NAMES, "if": {"properties": {"a": {"const": True}}}, "then": {"required": ["b"]}},
            None,
        ),
        ({"properties": {"a": True}, "unevaluatedProperties": False}, {"properties": {"a": True}, "allOf": [CLOSED]}),
        ({"uniqueItems": True, "items": {"const": 1}}, {"items": {"const": 1}, "maxItems": 1}),
    ],
)
def test_what_a_grammar_can_say_in_other_words_is_said_exactly(schema: dict[str, Any], expected: Schema | None) -> None:
    written, is_exact = rewrite(schema)
    assert is_exact
    if expected is not None:
        assert written == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"oneOf": [{"minimum": 1}, {"type": "integer"}]}, {"anyOf": [{"minimum": 1}, {"type": "integer"}]}),
        ({"contains": {"type": "null"}, "minContains": 2, "minItems": 1}, {"minItems": 2}),
        ({"uniqueItems": True, "items": {"enum": [1, 2]}}, {"items": {"enum": [1, 2]}, "maxItems": 2}),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}),
        (
            {"propertyNames": {"enum": ["a", "b.c"]}, "additionalProperties": {"type": "null"}},
            {"patternProperties": {r"^(a|b\.c)$": {"type": "null"}}, "additionalProperties": False},
        ),
        (
            {**NAMES, "propertyNames": {"pattern": "^a"}},
            {**NAMES, "allOf": [{"patternProperties": {"^a": True}, "additionalProperties": False}]},
        ),
        ({"not": {"pattern": "a"}}, {"allOf": [{"type": "string"}]}),
        ({"type": "array", "dependentRequired": {"a": ["b"]}}, {"type": "array"}),
        ({**NAMES, "dependentRequired": {name: ["b"] for name in "axy"}}, NAMES),
    ],
)
def test_what_a_grammar_cannot_say_is_loosened(schema: dict[str, Any], expected: Schema) -> None:
    assert rewrite(schema) == (expected, False)


def test_nothing_but_keywords_of_a_grammar_is_left() -> None:
    written, _ = rewrite({"not": {"minimum": 1}, "oneOf": [True], "anyOf": [True], "allOf": [True], "maxContains": 1})
    assert isinstance(written, dict)
    assert written.keys() <= GRAMMAR_KEYWORDS


def test_conditions_and_negations_can_be_left_out() -> None:
    schema = {**NAMES, "not": {"required": ["a"]}, "dependentRequired": {"a": ["b"]}}
    assert rewrite(schema, expand=False) == (NAMES, False)


def test_names_and_patterns_are_not_mixed_where_names_become_patterns() -> None:
    assert rewrite({**NAMES, "propertyNames": {"pattern": "^a"}}, any_order=True) == (NAMES, False)


@pytest.mark.parametrize(
    ("items", "most"),
    [({"enum": [1, 2]}, 2), ({"type": "boolean"}, 2), ({"type": "string"}, None), ({"$ref": "#/$defs/color"}, 3)],
)
def test_unique_items_are_at_most_as_many_as_there_are_values(items: Schema, most: int | None) -> None:
    schema = {"type": "array", "uniqueItems": True, "items": items}
    found, _ = rewritten(schema, {"color": {"enum": ["r", "g", "b"]}}, any_order=False, expand=True)
    assert isinstance(found, dict)
    assert found.get("maxItems") == most


def test_a_branch_that_holds_anyway_rules_out_the_others() -> None:
    """Else a key that none of them allows is offered, and leads to a dead end."""
    schema: Schema = {"type": "object", "required": ["a"], "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    written, is_exact = rewritten(schema, {}, any_order=False, expand=True)
    assert written == {"type": "object", "required": ["a"], "allOf": [{"type": "object", "properties": {"b": False}}]}
    assert is_exact
