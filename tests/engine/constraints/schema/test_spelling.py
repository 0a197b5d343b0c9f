import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.byte_matcher import matches_grammar
from sureact.constraints.schema.spelling import (
    is_ascii_pattern,
    is_countable,
    is_plain_number,
    is_spellable,
    is_spellable_text,
    multiple_of,
    name_pattern,
)


def matches(schema: dict[str, Any], value: Any) -> bool:
    from llguidance import LLMatcher

    grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema))
    return matches_grammar(grammar, json.dumps(value, ensure_ascii=False))


@given(st.text(max_size=6) | st.text(alphabet='\\^$.|?*+()[]{}/-"#&~<>%\n\t\x01é😀ab', max_size=6))
def test_a_name_pattern_matches_its_name_and_no_other(name: str) -> None:
    pattern = name_pattern(name)
    if pattern is not None:
        schema = {"type": "object", "patternProperties": {pattern: {}}, "additionalProperties": False}
        assert matches(schema, {name: 1})
        assert not matches(schema, {name + "x": 1})
        assert not matches(schema, {"x" + name: 1})


def test_a_name_that_no_pattern_can_spell_has_none() -> None:
    assert name_pattern("\x7f") is None
    assert name_pattern("\ud800") is None


@pytest.mark.parametrize("number", [0, 1, -5, 2**53, 1.5, -0.25, 0.0001, 12345.678])
def test_a_plain_number_is_spelled_as_python_writes_it(number: float) -> None:
    assert is_plain_number(number)
    assert matches({"const": number}, number)


@pytest.mark.parametrize("number", [2**53 + 1, 10**30, 1e22, 1e-7, 1e16])
def test_other_numbers_would_be_rounded_or_need_an_exponent(number: float) -> None:
    assert not is_plain_number(number)


@given(st.integers(1, 2000), st.integers(0, 4), st.integers(0, 60))
def test_a_divisor_is_written_so_that_every_multiple_is_a_text(coefficient: int, places: int, times: int) -> None:
    divisor = float(Decimal(coefficient).scaleb(-places))
    written = multiple_of(divisor)
    if written is None:
        return
    assert (Fraction(str(divisor)) / Fraction(str(written))).denominator == 1
    multiple = float(Decimal(coefficient * times).scaleb(-places))
    spelled = int(multiple) if multiple.is_integer() else multiple
    assert matches({"type": "number", "multipleOf": written}, spelled)


@pytest.mark.parametrize(
    ("divisor", "written"), [(1, 1), (0.1, 0.1), (0.01, 0.01), (0.25, 0.05), (0.022, 0.002), (7, 7), (10**12, None)]
)
def test_a_divisor_that_llguidance_miscounts_gives_way_to_a_step_of_it(divisor: float, written: float | None) -> None:
    assert multiple_of(divisor) == written


def test_lengths_beyond_what_a_regex_counts_are_not_countable() -> None:
    assert is_countable(2**32 - 1)
    assert not is_countable(2**32)


def test_texts_are_spelled_unless_they_need_escapes() -> None:
    assert is_spellable_text("é", ensure_ascii=False)
    assert not is_spellable_text("é", ensure_ascii=True)
    assert not is_spellable_text("\ud800", ensure_ascii=False)
    assert is_spellable_text("a\n", ensure_ascii=True)


def test_a_constant_is_spelled_if_all_of_it_is() -> None:
    assert is_spellable({"a": [1, None, True, "é"]}, ensure_ascii=False)
    assert not is_spellable({"é": 1}, ensure_ascii=True)
    assert not is_spellable([{"a": 1e300}], ensure_ascii=False)


@pytest.mark.parametrize("pattern", ["^[a-z]+$", r"^\d{2}-\w+$", r"^a\.b\$$", "^(ab)?$"])
def test_patterns_of_ascii_alone(pattern: str) -> None:
    assert is_ascii_pattern(pattern)


@pytest.mark.parametrize("pattern", ["a", "^a", "a$", "^.$", "^[^a]$", r"^\S$", "^é$", "^a|b$", r"^(?i:k)$", r"^a\$"])
def test_patterns_that_may_match_more_than_ascii(pattern: str) -> None:
    assert not is_ascii_pattern(pattern)


@pytest.mark.parametrize("divisor", [1_000_003, 2**31 - 1, 10**400, 1e300])
def test_divisors_with_too_many_remainders_are_not_written(divisor: float) -> None:
    assert multiple_of(divisor) is None


@pytest.mark.parametrize("divisor", [10_007, 1_000_000, 700_000_000])
def test_trailing_zeros_of_divisors_cost_nothing(divisor: int) -> None:
    assert multiple_of(divisor) == divisor
