import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from sureact.agent.observation import cut_to_tokens, error_text, observation_text, repeat_text
from sureact.agent.trajectory import Step


class Point(BaseModel):
    x: int


class Opaque:
    def __str__(self) -> str:
        return "opaque thing"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("é", "é"),
        (None, "null"),
        (3.5, "3.5"),
        ({"a": [1, "é"]}, '{"a": [1, "é"]}'),
        ([Point(x=1)], '[{"x": 1}]'),
        (datetime.date(2024, 1, 2), '"2024-01-02"'),
        (Opaque(), "opaque thing"),
        ("caf\udce9.txt", "caf\ufffd.txt"),
        (["caf\udce9"], '["caf\ufffd"]'),
    ],
)
def test_results_read_as_text_or_json(result: object, text: str):
    assert observation_text(result) == text


def test_an_object_that_holds_itself_is_still_text():
    loop: list[object] = []
    loop.append(loop)
    assert observation_text(loop) == "[[...]]"


def test_an_error_shows_type_and_message_only():
    with pytest.raises(ValueError, match="blew up") as caught:
        raise ValueError("tool blew up")
    assert error_text("search", caught.value) == "Execution error in search: ValueError: tool blew up"


def test_an_error_holds_no_lone_surrogate():
    assert error_text("read", ValueError("caf\udce9")) == "Execution error in read: ValueError: caf\ufffd"


def test_a_repeat_says_so_and_gives_the_earlier_observation():
    earlier = Step(index=1, thought="", tool_name="a", tool_args={}, observation="42")
    assert "step 2" in repeat_text(earlier)
    assert "42" in repeat_text(earlier)


@given(st.text(max_size=300), st.integers(40, 200))
def test_a_cut_text_fits_and_says_what_is_missing(text: str, budget: int):
    cut = cut_to_tokens(text, budget, len)
    assert len(cut) <= max(budget, 45)
    assert cut == text or f"of {len(text)} characters shown]" in cut
    assert cut == text or len(text) > budget


@pytest.mark.parametrize("text", ["x" * 10_000_000, "word " * 2_000_000])
def test_ten_megabytes_are_cut_without_being_counted_whole(text: str):
    counted: list[int] = []

    def count(part: str) -> int:
        counted.append(len(part))
        return len(part) // 4

    cut = cut_to_tokens(text, 1024, count)
    assert count(cut) <= 1024
    assert cut.endswith(f"of {len(text):,} characters shown]")
    assert sum(counted) < 200_000
    assert len(cut) > 0.95 * 4 * 1024


@given(st.integers(1, 6), st.integers(30, 500), st.integers(0, 30_000))
def test_a_cut_fills_its_budget_whatever_a_token_holds(characters: int, budget: int, length: int):
    def count(text: str) -> int:
        return -(-len(text) // characters)

    cut = cut_to_tokens("a" * length, budget, count)
    assert count(cut) <= budget or not cut.startswith("a") or length == len(cut) < 45  # the note is as long
    assert length == len(cut) or count(cut) >= 0.95 * budget - 3 or not cut.startswith("a")


@given(st.text(max_size=60), st.integers(1, 40), st.integers(1, 6))
def test_a_text_that_the_note_would_only_make_longer_stays_whole(text: str, budget: int, characters: int):
    def count(part: str) -> int:
        return -(-len(part) // characters)

    cut = cut_to_tokens(text, budget, count)
    assert cut == text or (count(cut) < count(text) or len(cut) < len(text))


def test_a_short_text_stays_whole_whatever_the_limit_and_a_long_one_does_not():
    assert cut_to_tokens("Completed.", 1, len) == "Completed."
    assert cut_to_tokens("x" * 33, 1, len) == "\n[cut: 0 of 33 characters shown]"
    assert cut_to_tokens("x" * 32, 1, len) == "x" * 32
    assert cut_to_tokens("x" * 100, 1, len) == "\n[cut: 0 of 100 characters shown]"


def test_a_text_with_a_long_token_is_cut_too():
    assert cut_to_tokens("a" * 100_000, 5, lambda text: len(text) // 1000 + 1).startswith("a")


def test_where_an_object_lies_is_not_told():
    assert observation_text(object()) == "<object object>"
    assert error_text("t", KeyError(object())) == "Execution error in t: KeyError: <object object>"


def test_a_long_message_is_cut():
    text = error_text("t", ValueError("x" * 10_000_000))
    assert len(text) < 5000
    assert text.endswith("[cut]")


def test_notes_of_an_error_are_shown():
    error = ValueError("no")
    error.add_note("3 attempts")
    assert error_text("t", error) == "Execution error in t: ValueError: no (3 attempts)"


LEAVES = (
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text()
    | st.binary()
    | st.dates()
    | st.complex_numbers()
)
KEYS = st.text() | st.integers() | st.none() | st.tuples(st.integers())


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner) | st.tuples(inner, inner)))
def test_any_result_is_text_that_a_tokenizer_takes(result: object):
    observation_text(result).encode()
    error_text("t", ValueError(result)).encode()
