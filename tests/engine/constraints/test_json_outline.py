"""The outline of a text knows which values are open, however the text is cut into pieces."""

import json

from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.json_outline import Outline

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
    max_leaves=8,
)


def kinds(text: str) -> list[str]:
    return [value.kind for value in Outline().read(text.encode()).open_values]


@given(value=VALUES, cuts=st.lists(st.integers(0, 200), max_size=6), end=st.integers(0, 200))
def test_pieces_are_read_as_the_whole(value: object, cuts: list[int], end: int) -> None:
    data = json.dumps(value, ensure_ascii=False).encode()[:end]
    outline, start = Outline(), 0
    for cut in [*sorted(cuts), len(data)]:
        outline, start = outline.read(data[start:cut]), max(start, cut)
    assert outline == Outline().read(data)


@given(value=VALUES.filter(lambda value: isinstance(value, list | dict | str)))
def test_a_complete_value_leaves_nothing_open_and_a_part_of_it_does(value: object) -> None:
    data = json.dumps(value).encode()
    assert Outline().read(data).open_values == ()
    for end in range(1, len(data)):
        assert Outline().read(data[:end]).open_values[0].start == 0


def test_the_open_values_are_those_on_the_path() -> None:
    assert kinds('{"a": [1, {"b": "c') == ["object", "array", "object", "string"]
    assert kinds('{"a": [1, -2.5e') == ["object", "array", "number"]
    assert kinds('{"a": [1, 2]') == ["object"]
    assert kinds('{"a\\"b": tr') == ["object"]
    assert kinds('"a\\') == ["string"]


def test_the_text_before_the_arguments_of_a_call_is_passed_over() -> None:
    assert kinds('Action: find "x" [y]\nAction Input: {"q": "a') == ["object", "string"]
    assert kinds("Action: find") == []


def test_the_pointer_names_the_members_and_items_on_the_way() -> None:
    text = b'{"x": 1, "a/b~": [1, {"c": [[], "d'
    outline = Outline().read(text)
    assert outline.pointer(len(outline.open_values), text) == "/a~1b~0/1/c/1"
    assert outline.pointer(1, text) == ""


def test_a_depth_counts_the_values_that_had_begun() -> None:
    outline = Outline().read(b'{"a": [1, "bc')
    assert [outline.depth_at(index) for index in (0, 5, 6, 9, 10, 13)] == [1, 1, 2, 2, 3, 3]
