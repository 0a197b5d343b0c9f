"""`|` stands before the character that makes a value invalid for good; all before it is let through."""

from collections.abc import Callable

import pytest

from sureact.constraints.schema.keywords import Schema

Written = Callable[[Schema, str], str]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string"}, "|1"),
        ({"type": "string"}, "|n"),
        ({"type": "null"}, "|t"),
        ({"type": ["object", "null"]}, " |["),
        ({"items": {"type": "integer"}}, "[1.5|,"),
        ({"items": {"type": "integer"}}, "[15e-1|]"),
        ({"items": {"type": "boolean"}}, "[true,|1"),
        ({"enum": ["ab", "cd"]}, '"|b'),
        ({"enum": ["ab", "cd"]}, '"a|d'),
        ({"enum": ["ab", "cd"]}, '"a|"'),
        ({"enum": ["ab", "cd"]}, '"ab|c'),
        ({"enum": ["a"]}, "|1"),
        ({"const": "é"}, '"|e'),
        ({"const": "é"}, r'"\u00e|8'),
        ({"const": "é"}, r'"\|n'),
        ({"const": "a"}, r'"a|\n'),
        ({"const": "\n"}, r'"\|t'),
        ({"const": "😀"}, r'"\ud83d\ude0|1'),
        ({"const": True}, "|f"),
        ({"const": 1}, "|t"),
        ({"items": {"enum": [1, 2]}}, "[1,|3"),
        ({"const": []}, "[|1"),
        ({"const": [1, [2, 3]]}, "[1,[2,3|,"),
        ({"const": [1, [2, 3]]}, "[1,[2|]"),
        ({"const": [1, 2]}, "[1|]"),
        ({"const": {"ab": 1}}, '{"|b'),
        ({"const": {"ab": 1}}, '{"a|"'),
        ({"const": {"ab": 1}}, '{"ab":1|,'),
        ({"const": {"ab": 1, "c": "d"}}, '{"c":"d|e'),
        ({"const": {"a": 1}, "enum": [{"a": 1}, {"b": 1}]}, '{"|b'),
        ({"const": 1, "enum": ["a"]}, "|1"),
        ({"items": {"minimum": 3}}, "[2|,"),
        ({"items": {"exclusiveMaximum": 3}}, "[3.0|]"),
        ({"items": {"multipleOf": 0.1}}, "[0.3,0.35|]"),
        ({"items": {"multipleOf": 2}}, "[4,20e-1,3|]"),
        ({"maxLength": 2}, '"é😀|x'),
        ({"maxLength": 1}, r'"\ud83d\ude00|x'),
        ({"maxLength": 1}, r'"a|\n'),
        ({"minLength": 2}, '"a|"'),
        ({"pattern": "^ab"}, '"|b'),
        ({"pattern": "^ab"}, '"a|c'),
        ({"pattern": "b$"}, '"ba|"'),
        ({"pattern": "^a*$"}, r'"a\u006|2'),
        ({"pattern": "^(?!a)"}, '"|a'),
        ({"pattern": "^(?!.*x)b"}, '"bb|x'),
        ({"format": "date"}, '"2023-02-29|"'),
    ],
)
def test_a_value_is_refused_where_it_becomes_invalid(written: Written, schema: Schema, text: str) -> None:
    accepted, _, refused = text.partition("|")
    assert written(schema, accepted + refused).rstrip(".") == accepted


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "1.0"),
        ({"type": "integer"}, "150e-1"),
        ({"type": "integer"}, "1" + "0" * 400),
        ({"type": "number", "multipleOf": 0.01}, "19.99"),
        ({"type": "number", "multipleOf": 3}, "3" + "0" * 400),
        ({"type": "number", "minimum": -1, "maximum": 1}, "-1e0"),
        ({"enum": [1, "a", None]}, "10e-1"),
        ({"const": {"a": [1, 2], "b": {}}}, '{"b":{},"a":[1.0,2]}'),
        ({"const": 0}, "-0"),
        ({"const": "é"}, r'"\u00e9"'),
        ({"const": "é\n😀"}, r'"\u00E9\n\ud83d\uDE00"'),
        ({"minLength": 1, "maxLength": 1}, r'"\ud83d\ude00"'),
        ({"minLength": 3}, "1"),
        ({"pattern": "b"}, '"abc"'),
        ({"pattern": "b"}, "[]"),
        ({"pattern": r"^\u007f$"}, '"\x7f"'),
        ({"format": "date"}, '"2024-02-29"'),
        ({"format": "date"}, "1"),
    ],
)
def test_a_valid_value_is_let_through(written: Written, schema: Schema, text: str) -> None:
    assert written(schema, text) == text + "."


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "1.5"),
        ({"minimum": 3}, "2"),
        ({"enum": [12]}, "1"),
        ({"multipleOf": 2}, "3"),
        ({}, "9" * 400 + ".1"),
    ],
)
def test_a_number_at_the_top_may_not_end_while_it_is_invalid(written: Written, schema: Schema, text: str) -> None:
    assert written(schema, text) == text
