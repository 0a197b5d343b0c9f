from collections.abc import Callable
from typing import Any

import pytest

from sureact.constraints.schema.keyword_shapes import (
    MalformedKeywordError,
    constant,
    constants,
    count,
    divisor,
    flag,
    members,
    names,
    number,
    schemas,
    shortened,
    text,
    texts,
    type_names,
)


@pytest.mark.parametrize(
    ("check", "value", "normal"),
    [
        (type_names, "null", "null"),
        (type_names, ["null"], "null"),
        (type_names, ["null", "string", "null"], ["null", "string"]),
        (number, -1.5, -1.5),
        (number, 10**400, 10**400),
        (divisor, 0.1, 0.1),
        (count, 2.0, 2),
        (flag, False, False),
        (text, "käse", "käse"),
        (names, ["b", "a", "b"], ["b", "a"]),
        (constants, [1, [None]], [1, [None]]),
        (constant, {"a": ["b", 1.5]}, {"a": ["b", 1.5]}),
        (members, {"a": 1}, {"a": 1}),
        (schemas, [1], [1]),
    ],
)
def test_what_means_something_is_returned_in_normal_form(
    check: Callable[[Any], object], value: object, normal: object
) -> None:
    assert check(value) == normal


@pytest.mark.parametrize(
    ("check", "value"),
    [
        *((type_names, value) for value in ("strin", [], [1], 1, None, ["null", "any"])),
        *((number, value) for value in (True, "1", None, float("nan"), float("inf"))),
        *((divisor, value) for value in (0, -1, "1")),
        *((count, value) for value in (-1, 1.5, float("inf"), True, "1")),
        *((flag, value) for value in (0, 1, "true", None)),
        *((text, value) for value in (1, None, "\ud800")),
        *((texts, value) for value in ("ab", [1], ["\ud800"], {"a": 1})),
        *((names, value) for value in (True, [None])),
        *((constants, value) for value in ([], {}, "ab", [["\udfff"]])),
        *((constant, value) for value in ("\ud800", {"\ud800": 1}, [float("inf")])),
        *((members, value) for value in ([], None, {"\ud800": 1})),
        *((schemas, value) for value in ([], {}, None)),
    ],
)
def test_what_means_nothing_is_refused(check: Callable[[Any], object], value: object) -> None:
    with pytest.raises(MalformedKeywordError):
        check(value)


def test_constants_may_be_nested_deeper_than_python_recurses() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert constant(value) is value


def test_errors_show_the_beginning_of_a_value() -> None:
    assert shortened("a") == "'a'"
    assert shortened("a" * 1000) == "'" + "a" * 99 + "..."
    assert shortened({"a": 1}) == "an object"
    assert shortened([1]) == "a list"
    assert shortened(10**9999) == "a huge integer"
