"""Text comes out in whole characters, and the same however it was split."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sureact.tokens.detokenizer import Detokenizer
from sureact.tokens.vocabulary import Vocabulary


def vocabulary_of(pieces: list[bytes]) -> Vocabulary:
    return Vocabulary(
        token_bytes=tuple(pieces),
        control_ids=frozenset(),
        unused_ids=frozenset(),
        eos_ids=(),
        tokenizer_json=None,
        fingerprint="test",
    )


def split_at(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


@given(text=st.text(), cuts=st.lists(st.integers(0, 200)))
def test_any_split_of_a_text_gives_whole_characters_that_join_to_it(text: str, cuts: list[int]) -> None:
    pieces = split_at(text.encode(), cuts)
    detokenizer = Detokenizer(vocabulary_of(pieces))
    given_out = [detokenizer.push(token_id) for token_id in range(len(pieces))]
    assert "".join(given_out) == text
    assert detokenizer.flush() == ""


@given(data=st.binary(), cuts=st.lists(st.integers(0, 200)))
def test_invalid_bytes_are_replaced_as_in_the_whole(data: bytes, cuts: list[int]) -> None:
    pieces = split_at(data, cuts)
    detokenizer = Detokenizer(vocabulary_of(pieces))
    given_out = [detokenizer.push(token_id) for token_id in range(len(pieces))]
    assert "".join([*given_out, detokenizer.flush()]) == data.decode(errors="replace")


def test_an_emoji_over_three_tokens_comes_out_with_its_last_byte() -> None:
    detokenizer = Detokenizer(vocabulary_of([b"a\xf0\x9f", b"\x98", b"\x80!"]))
    assert [detokenizer.push(token_id) for token_id in range(3)] == ["a", "", "😀!"]


def test_control_tokens_have_no_text_and_do_not_disturb_a_character() -> None:
    detokenizer = Detokenizer(vocabulary_of([b"\xc3", b"", b"\xa4"]))
    assert [detokenizer.push(token_id) for token_id in range(3)] == ["", "", "ä"]


def test_an_unfinished_character_is_replaced_at_the_end_and_forgotten() -> None:
    detokenizer = Detokenizer(vocabulary_of([b"\xc3", b"b"]))
    assert detokenizer.push(0) == ""
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.push(1) == "b"
    assert detokenizer.push_bytes(b"\xc3\xa4") == "ä"
