"""However a text is cut into tokens, and however often it goes back, the reader holds the value as far as written."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.guards.json_reader import JsonReader
from sureact.constraints.guards.partial_value import PartialObject, PartialString, plain_value

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=8
)
layouts: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"ensure_ascii": st.booleans(), "indent": st.sampled_from([None, 0, 3])}
)


def after(text: str | bytes) -> JsonReader:
    reader = JsonReader()
    assert reader.read(text if isinstance(text, bytes) else text.encode())
    return reader


@given(values, layouts, st.integers(0, 1000))
def test_cuts_and_ways_back_do_not_matter(value: Any, layout: dict[str, Any], seed: int) -> None:
    random_ = random.Random(seed)
    data = json.dumps(value, **layout).encode()
    reader = JsonReader()
    places = [(0, reader.position())]
    while places[-1][0] < len(data):
        start, _ = places[-1]
        end = start + random_.randint(1, 5)
        assert reader.read(data[start:end])
        places.append((min(end, len(data)), reader.position()))
        if random_.random() < 0.2:
            del places[max(1, len(places) - random_.randrange(4)) :]
            reader.go_back(places[-1][1])
    assert reader.is_complete
    assert reader.end()
    assert reader.root is not None
    assert reader.root.plain() == plain_value(value)
    assert reader.num_bytes == len(data)
    assert not reader.open_values


@pytest.mark.parametrize("text", ["", " ", "-", "[", "[1", '"a', '{"a":1', "tru", "nul", '{"a"'])
def test_half_a_value_is_not_complete(text: str) -> None:
    is_number = text == "-"  # syntax is the grammar's
    assert after(text).is_complete == is_number


@pytest.mark.parametrize("text", ["1", "1 ", "true", '"a"', "[]", " {} \n", "[[1]]"])
def test_a_value_is_complete_at_its_end(text: str) -> None:
    assert after(text).is_complete


def test_what_follows_the_value_is_not_its_own() -> None:
    reader = after('{"a": 1}')
    assert reader.read(b'\n</tool_call> {"a": [')
    assert reader.is_complete


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"a":1,"b":2,"a', '"'),
        (r'{"a":1,"\u0061', '"'),
        ('{"\\ud83d\\ude00":1,"😀', '"'),
        ('[{"":{"":1},"', '"'),
    ],
)
def test_a_name_that_was_there_is_refused_at_its_closing_quote(text: str, name: str) -> None:
    reader = after(text)
    position = reader.position()
    assert not reader.read(name.encode())
    reader.go_back(position)
    assert reader.read(b'x":3')


@pytest.mark.parametrize(("text", "digit"), [("[1e30", "9"), ("1E+99", "9"), ("[-1e99", "9")])
def test_a_number_is_refused_at_the_digit_that_makes_it_infinite(text: str, digit: str) -> None:
    assert not after(text).read(digit.encode())


def test_a_long_number_is_refused_where_it_ends_when_only_an_exponent_could_save_it() -> None:
    digits = "9" * 400 + ".0"
    assert not after("[" + digits).read(b",")
    assert after("[" + digits).read(b"e-300,")


def test_a_character_may_come_in_parts() -> None:
    reader = JsonReader()
    for byte in '"é娃😀"'.encode():
        assert reader.read(bytes([byte]))
    assert isinstance(reader.root, PartialString)
    assert reader.root.text == "é娃😀"


@pytest.mark.parametrize("data", [b'"\xff', b'"\x80', b'"\xed\xa0', b'"\xf8', b'"\xc3"', b'"\xc0'])
def test_bytes_that_are_no_text_are_refused_at_once(data: bytes) -> None:
    assert not JsonReader().read(data)


def test_an_escape_may_come_in_parts_and_a_pair_of_surrogates_is_one_character() -> None:
    reader = JsonReader()
    lengths: list[int] = []
    for character in r'"\n\u0041\ud83d\ude00\/"':
        assert reader.read(character.encode())
        assert isinstance(reader.root, PartialString)
        lengths.append(reader.root.num_characters)
    assert isinstance(reader.root, PartialString)
    assert reader.root.text == "\nA😀/"
    assert sorted(set(lengths)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "character"),
    [(r'"\ud83d', '"'), (r'"\ud83d', "a"), (r'"\ud83d' + "\\", "n"), (r'"\ud83d\u006', "1"), (r'"\udc0', "0")],
)
def test_half_a_pair_of_surrogates_is_refused(text: str, character: str) -> None:
    reader = JsonReader()
    assert not reader.read((text + character).encode())


def test_the_path_to_what_is_written_is_open() -> None:
    reader = after('{"a":[1,{"b')
    kinds = [value.kind for value in reader.open_values]
    assert kinds == ["object", "array", "object", "string"]
    assert [value.start for value in reader.open_values] == [0, 5, 8, 9]


def test_the_start_of_a_value_counts_bytes_not_characters() -> None:
    assert after('{"é😀":"é').open_values[-1].start == len('{"é😀":'.encode())


def test_a_comma_asks_for_one_more() -> None:
    reader = after('{"a":[1')
    position = reader.position()
    outer = reader.root
    assert isinstance(outer, PartialObject)
    assert reader.read(b"],")
    assert outer.min_len == 2
    reader.go_back(position)
    assert outer.min_len == 1
