from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.server.api_error import ApiError
from sureact.server.field_values import (
    boolean,
    integer,
    number,
    one_of,
    read_list,
    read_object,
    read_text,
    read_texts,
    read_token_ids,
    text,
    token_ids,
)

FIELDS = [
    (integer("x", least=0, most=9), [0, 9], [-1, 10, 1.0, True, "1", None, []]),
    (number("x", None, least=0, most=2), [0, 2, 1.5], [-0.1, 2.1, True, "1", None, {}]),
    (number("x", None, least=0, is_open=True), [0.1, 10**9], [0, -1, False]),
    (boolean("x", False), [True, False], [0, 1, "true", None]),
    (text("x"), ["", "a"], [1, None, ["a"]]),
    (token_ids("x"), [[], [0, 5]], [5, [-1], [True], ["a"], [1 << 40]]),
]


@pytest.mark.parametrize(("field", "good", "bad"), FIELDS)
def test_values_are_of_their_type_and_range(field: Any, good: list[Any], bad: list[Any]) -> None:
    assert [field.read(value, "x") for value in good] == good
    for value in bad:
        with pytest.raises(ApiError, match="x"):
            field.read(value, "x")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_json_is_read_or_refused(value: Any) -> None:
    for read in (read_text, read_texts, read_list, read_object, read_token_ids, *(field.read for field, *_ in FIELDS)):
        with suppress(ApiError):
            read(value, "x")


def test_one_of_reads_by_type() -> None:
    read = one_of((str, read_text), (list, read_texts), allowed="a text or a list of texts")
    assert read("a", "x") == "a"
    assert read(["a"], "x") == ["a"]
    with pytest.raises(ApiError, match=r"x\[1\] is 2"):
        read(["a", 2], "x")
    with pytest.raises(ApiError, match="x is 2; it must be a text or a list of texts"):
        read(2, "x")
