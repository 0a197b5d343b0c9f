from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.schema.judge import json_validator, parse_json


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '[{"k": 0, "k": 0}]', "NaN", "-Infinity", "1e999", "[1", "", "01"]
)
def test_what_is_not_strict_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the reasons are worded by the parser
        parse_json(text)


def test_strict_json_is_parsed() -> None:
    assert parse_json('{"a": [1, -0.5, 1e5, null, "\\u00e9"]}') == {"a": [1, -0.5, 1e5, None, "é"]}


@pytest.mark.parametrize(
    ("schema", "value", "valid"),
    [
        ({"pattern": r"^\d$"}, "٣", False),
        ({"pattern": r"^\d$"}, "3", True),
        ({"pattern": "^a$"}, "a\n", False),
        ({"pattern": "b"}, "abc", True),
        ({"pattern": "b"}, 7, True),
        ({"patternProperties": {"^a": {"type": "integer"}}}, {"ab": "x"}, False),
        ({"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": False}, {"ab": 1}, True),
        ({"patternProperties": {"^a": True}, "additionalProperties": False}, {"b": 1}, False),
        ({"properties": {"a": True}, "additionalProperties": {"type": "null"}}, {"a": 1, "b": None}, True),
        ({"properties": {"a": True}, "additionalProperties": {"type": "null"}}, {"b": 1}, False),
        ({"multipleOf": 0.1}, 0.3, True),
        ({"multipleOf": 0.1}, 0.35, False),
        ({"multipleOf": 3}, True, True),
        ({"format": "date"}, "2024-02-30", False),
        ({"format": "time"}, "10:00:00Z", True),
        ({"format": "time"}, "10:00:00", False),
        ({"format": "uri-template"}, "{", False),
        ({"format": "color"}, "{", True),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}, 1, False),
    ],
)
def test_a_value_is_judged_as_the_standard_has_it(schema: Any, value: Any, valid: bool) -> None:
    assert json_validator(schema, check_formats=True).is_valid(value) is valid


def test_formats_are_left_alone_when_not_asked_for() -> None:
    assert json_validator({"format": "date"}, check_formats=False).is_valid("no date")


@given(st.integers(-1000, 1000), st.integers(1, 50), st.integers(0, 4))
def test_decimal_multiples_are_exact(factor: int, divisor: int, digits: int) -> None:
    step = float(f"{divisor}e-{digits}")
    value = float(f"{factor * divisor}e-{digits}")
    assert json_validator({"multipleOf": step}, check_formats=False).is_valid(value)
