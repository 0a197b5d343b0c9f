"""Partial values grow at their ends, are cut back, and compare as JSON does."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.guards.json_reader import JsonReader
from sureact.constraints.guards.partial_value import (
    MAX_INTEGER_DIGITS,
    PartialNumber,
    PartialObject,
    PartialString,
    PartialValue,
    plain_value,
)

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


def number(*pieces: str, is_closed: bool = False) -> PartialNumber:
    value = PartialNumber(0)
    value.pieces += pieces
    value.is_closed = is_closed
    return value


def read(text: str) -> PartialValue:
    reader = JsonReader()
    assert reader.read(text.encode())
    assert reader.end()
    assert reader.root is not None
    return reader.root


@given(values)
def test_a_value_that_was_read_equals_the_parsed_one(value: Any) -> None:
    assert read(json.dumps(value)).plain() == plain_value(value)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1", "1.0"),
        ("10", "1e1"),
        ("-0", "0"),
        ('{"a":1,"b":2}', '{"b":2,"a":1}'),
        (r'"\u0061"', '"a"'),
        (r'"\ud83d\ude00"', '"😀"'),
    ],
)
def test_spellings_of_one_value_are_equal(left: str, right: str) -> None:
    assert read(left).plain() == read(right).plain()


@pytest.mark.parametrize(
    ("left", "right"),
    [("1", "true"), ("0", "false"), ("null", '"null"'), ("[1]", "[true]"), ("[]", "{}"), ("1", '"1"')],
)
def test_values_of_different_types_differ(left: str, right: str) -> None:
    assert read(left).plain() != read(right).plain()


@pytest.mark.parametrize(
    "text", ["1e", "1e3", "1e30", "-", "-1.", "1e-999", "0e999", "0.001e310", "9" * 400, "1.5e-400"]
)
def test_numbers_that_a_reader_holds_are_readable(text: str) -> None:
    assert number(*text).is_readable


@pytest.mark.parametrize("text", ["1e999", "-1e999", "1E+400", "10e308", "9" * (MAX_INTEGER_DIGITS + 1)])
def test_numbers_that_no_reader_holds_are_not(text: str) -> None:
    assert not number(*text).is_readable


def test_a_long_fraction_is_judged_at_its_end_because_an_exponent_may_shrink_it() -> None:
    text = "9" * 400 + ".5"
    assert number(text).is_readable
    assert not number(text, is_closed=True).is_readable
    assert number(text, "e-300", is_closed=True).is_readable


def test_a_cut_string_has_its_old_text_and_none_of_what_was_found_out() -> None:
    string = PartialString(0)
    string.append("ab")
    lengths = string.lengths
    string.append("c")
    string.is_closed = True
    string.memo["schema"], string.progress["check"] = (1, True), 3
    string.cut(lengths)
    assert (string.text, string.num_characters, string.is_closed) == ("ab", 2, False)
    assert not string.memo
    assert not string.progress


def test_a_cut_object_forgets_the_names_that_were_closed_since() -> None:
    value = read('{"a":1}')
    assert isinstance(value, PartialObject)
    lengths = value.lengths
    value.names.append(PartialString(7))
    value.members["b"] = 1
    value.awaits_name = True
    value.cut(lengths)
    assert (list(value.members), len(value.names), value.awaits_name, value.min_len) == (["a"], 1, False, 1)
