import json
from typing import Any

import pytest

from sureact.constraints.byte_matcher import matches_grammar
from sureact.constraints.schema.grammar_writer import GrammarWriter
from sureact.constraints.schema.leeway import Leeway
from sureact.constraints.schema.normal_form import NormalSchema


def written(
    root: dict[str, Any], *, any_order: bool = False, ensure_ascii: bool = False
) -> tuple[dict[str, Any], bool]:
    writer = GrammarWriter(NormalSchema(root, {}), Leeway(), any_order=any_order, ensure_ascii=ensure_ascii)
    return writer.write(), writer.is_exact


def accepts(schema: dict[str, Any], text: str) -> bool:
    from llguidance import LLMatcher

    options = {"json_allow_general_unicode_escapes": True}
    return matches_grammar(LLMatcher.grammar_from_json_schema({**schema, "x-guidance": options}), text)


def test_constants_may_have_their_keys_in_any_order() -> None:
    schema, is_exact = written({"enum": [1, {"a": [{"b": 1, "c": 2}], "d": "x"}]}, any_order=True)
    assert not is_exact
    assert accepts(schema, '{"d": "x", "a": [{"c": 2, "b": 1}]}')
    assert accepts(schema, "1")
    assert not accepts(schema, '{"a": [{"b": 1, "c": 2}], "d": "y"}')
    assert not accepts(schema, '{"d": "x"}')


@pytest.mark.parametrize("value", ["é", 1e-7, 10**30, {"é": 1}, ["é"]])
def test_a_constant_that_cannot_be_spelled_is_loosened_to_its_type(value: Any) -> None:
    schema, is_exact = written({"const": value}, ensure_ascii=True)
    assert not is_exact
    assert accepts(schema, json.dumps(value))
    assert not accepts(schema, "null")


def test_constants_that_can_be_spelled_stay_beside_those_that_cannot() -> None:
    schema, _ = written({"type": "string", "enum": ["a", "é"]}, ensure_ascii=True)
    assert schema == {"type": "string", "allOf": [{"anyOf": [{"enum": ["a"]}, {"type": "string"}]}]}


def test_patterns_that_may_match_more_than_ascii_are_left_out_where_that_is_escaped() -> None:
    assert written({"type": "string", "pattern": "^.$"}, ensure_ascii=True) == ({"type": "string"}, False)
    ascii_only = {"type": "string", "pattern": "^[a-z]+$"}
    assert written(ascii_only, ensure_ascii=True) == (ascii_only, True)


def test_a_pattern_with_lookahead_at_its_start_is_written_as_several() -> None:
    schema, is_exact = written({"type": "string", "pattern": "^(?=.*a)[ab]+$"})
    assert is_exact
    assert accepts(schema, '"ba"')
    assert not accepts(schema, '"bb"')
    assert not written({"type": "string", "pattern": "^(?!a)b"})[1]


def test_a_class_that_keeps_quotes_out_is_not_exact() -> None:
    assert not written({"type": "string", "pattern": '^[^"]*$'})[1]
    assert written({"type": "string", "pattern": "^[^a]*$"})[1]


def test_a_format_stands_beside_a_pattern() -> None:
    schema, is_exact = written({"type": "string", "format": "ipv4", "pattern": "^1"})
    assert is_exact
    assert accepts(schema, '"127.0.0.1"')
    assert not accepts(schema, '"27.0.0.1"')
    assert not accepts(schema, '"1"')


def test_a_format_without_a_pattern_is_left_out() -> None:
    assert written({"type": "string", "format": "regex"}) == ({"type": "string"}, False)


def test_bounds_that_llguidance_would_round_are_left_out() -> None:
    assert written({"type": "integer", "maximum": 2**63 - 1, "minimum": 0}) == (
        {"type": "integer", "minimum": 0},
        False,
    )


def test_lengths_are_left_out_where_a_pattern_counts_too() -> None:
    counting = {"type": "string", "pattern": "^(a b){0,50}$"}
    assert written({**counting, "maxLength": 500}) == (counting, False)
    assert written({**counting, "maxLength": 50}) == ({**counting, "maxLength": 50}, True)
    assert written({"type": "string", "maxLength": 2**40}) == ({"type": "string"}, False)


def test_a_divisor_that_is_miscounted_is_loosened() -> None:
    bounds = {"type": "number", "minimum": 0, "maximum": 9}
    assert written({**bounds, "multipleOf": 0.25}) == ({**bounds, "multipleOf": 0.05}, False)
    assert written({**bounds, "multipleOf": 0.5}) == ({**bounds, "multipleOf": 0.5}, True)


def test_items_that_may_be_anything_are_not_written() -> None:
    schema, is_exact = written({"type": "array", "prefixItems": [{"type": "null"}, True], "items": True, "maxItems": 9})
    assert schema == {"type": "array", "prefixItems": [{"type": "null"}, True], "maxItems": 9}
    assert not is_exact
