"""Stops are found wherever they end, whatever the tokens, and nothing more than a possible start is held back."""

import random
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.tokens.stop_sequences import StopMatch, StopMatcher, cut_tokens

# Few letters, so that stops overlap each other and themselves; the two-byte letter puts boundaries inside characters.
letters = st.sampled_from("abä")
stop_texts = st.lists(st.text(letters, min_size=1, max_size=4), max_size=4)
stop_ids = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), max_size=3)
tokens = st.lists(st.tuples(st.integers(0, 2), st.text(letters, max_size=4).map(str.encode)), max_size=12)
ragged_tokens = st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=3)), max_size=12)


def run(matcher: StopMatcher, tokens: list[tuple[int, bytes]]) -> tuple[str, StopMatch | None]:
    """Feed tokens as a session does; return what a stream shows and the stop."""
    shown, data = b"", b""
    for token_id, token_bytes in tokens:
        match = matcher.push(token_id, token_bytes)
        data += token_bytes
        if match:
            return (shown + data[len(shown) : match.start_byte]).decode(errors="replace"), match
        shown = data[: len(data) - matcher.holdback]
    return data.decode(errors="replace"), None  # the end of the text releases what was held back


def pieces(*texts: str) -> list[tuple[int, bytes]]:
    return [(index, text.encode()) for index, text in enumerate(texts)]


def naive_match(
    texts: list[str], sequences: list[list[int]], tokens: list[tuple[int, bytes]], min_tokens: int
) -> tuple[int, int] | None:
    """Byte range of the first stop by trying every range after every token."""
    ids = [token_id for token_id, _ in tokens]
    ends = [0, *accumulate(len(token_bytes) for _, token_bytes in tokens)]
    data = b"".join(token_bytes for _, token_bytes in tokens)
    for count in range(max(1, min_tokens), len(tokens) + 1):
        found = [
            (end, start)
            for end in range(ends[count - 1] + 1, ends[count] + 1)
            for start in range(end)
            if data[start:end] in [text.encode() for text in texts]
        ]
        found += [
            (ends[count], ends[count - len(sequence)])
            for sequence in sequences
            if ids[max(0, count - len(sequence)) : count] == sequence
        ]
        if found:
            end, start = min(found)
            return start, end
    return None


@given(texts=stop_texts, sequences=stop_ids, tokens=tokens | ragged_tokens, min_tokens=st.integers(0, 4))
def test_stops_are_those_that_trying_everything_finds(
    texts: list[str], sequences: list[list[int]], tokens: list[tuple[int, bytes]], min_tokens: int
) -> None:
    _, match = run(StopMatcher(texts, sequences, min_tokens=min_tokens), tokens)
    expected = naive_match(texts, sequences, tokens, min_tokens)
    assert (match and (match.start_byte, match.end_byte)) == expected


@given(texts=stop_texts, sequences=stop_ids, tokens=tokens, seed=st.randoms(use_true_random=False))
def test_the_order_of_the_stops_does_not_matter(
    texts: list[str], sequences: list[list[int]], tokens: list[tuple[int, bytes]], seed: random.Random
) -> None:
    shuffled = seed.sample(texts, len(texts)), seed.sample(sequences, len(sequences))
    assert run(StopMatcher(texts, sequences), tokens) == run(StopMatcher(*shuffled), tokens)


@given(texts=stop_texts, tokens=tokens | ragged_tokens)
def test_the_longest_possible_start_is_held_back_and_no_more(texts: list[str], tokens: list[tuple[int, bytes]]) -> None:
    matcher, data = StopMatcher(texts), b""
    for token_id, token_bytes in tokens:
        data += token_bytes
        if matcher.push(token_id, token_bytes):
            return
        starts = [
            length for text in texts for length in range(1, len(text.encode())) if data.endswith(text.encode()[:length])
        ]
        assert matcher.holdback == max(starts, default=0)


@given(texts=stop_texts, sequences=stop_ids, tokens=tokens)
def test_a_stream_shows_the_text_before_the_stop(
    texts: list[str], sequences: list[list[int]], tokens: list[tuple[int, bytes]]
) -> None:
    shown, match = run(StopMatcher(texts, sequences), tokens)
    data = b"".join(token_bytes for _, token_bytes in tokens)
    assert shown == data[: match.start_byte if match else None].decode(errors="replace")


def test_nothing_that_begins_a_stop_is_shown() -> None:
    shown, match = run(StopMatcher(["DEFGHIJ"]), pieces("DEF", "G", "HI", "J"))
    assert shown == ""
    assert match == StopMatch(stop="DEFGHIJ", start_byte=0, end_byte=7, start_token=0)


def test_a_react_stop_is_found_over_and_inside_tokens() -> None:
    shown, match = run(StopMatcher(["\nObservation:"]), pieces("Act", ".\nObs", "ervation", ": 4"))
    assert shown == "Act."
    assert match == StopMatch(stop="\nObservation:", start_byte=4, end_byte=17, start_token=1)


def test_text_that_cannot_begin_a_stop_is_shown_at_once() -> None:
    matcher = StopMatcher(["ZZZ"])
    for token_id, token_bytes in pieces("I", " am"):
        assert matcher.push(token_id, token_bytes) is None
        assert matcher.holdback == 0


def test_a_long_stop_does_not_hold_markers_back() -> None:
    matcher = StopMatcher(["\nA stop of many words"])
    matcher.push(0, b"<think>")
    assert matcher.holdback == 0


@pytest.mark.parametrize(
    ("texts", "expected"), [((" zeta", " eta", " theta"), ""), ((" zeta", " eta"), " zeta eta"), (("?\n",), "?\n")]
)
def test_a_hidden_stop_is_hidden_whole_and_an_unfinished_one_comes_out(texts: tuple[str, ...], expected: str) -> None:
    shown, _ = run(StopMatcher([" zeta eta theta", "\n\n"]), pieces(*texts))
    assert shown == expected


def test_a_prompt_that_ends_with_the_stop_does_not_stop() -> None:
    """The prompt is never pushed, so half a stop in it cannot be completed by the first token either."""
    assert run(StopMatcher(["\nObservation:"]), pieces("Observation:", " 4")) == ("Observation: 4", None)


def test_a_stop_at_once_says_what_stopped() -> None:
    _, match = run(StopMatcher(["."]), pieces(".", "x"))
    assert match is not None
    assert match.stop == "."


def test_of_stops_in_one_token_the_first_end_wins_then_the_longest() -> None:
    assert run(StopMatcher(["abcd", "bc"]), pieces("xabcd"))[0] == "xa"
    _, match = run(StopMatcher(["d", "bcd", "cd"]), pieces("abcd"))
    assert match is not None
    assert match.stop == "bcd"


def test_control_tokens_stop_by_id_though_they_have_no_bytes() -> None:
    _, match = run(StopMatcher(token_ids=[[9, 5]]), [(9, b""), (1, b"a"), (9, b""), (5, b"b"), (7, b"c")])
    assert match == StopMatch(stop=(9, 5), start_byte=1, end_byte=2, start_token=2)


def test_the_start_of_a_token_sequence_is_held_back() -> None:
    matcher = StopMatcher(token_ids=[[1, 2, 3]])
    held: list[int] = []
    for token_id, token_bytes in [(1, b"aa"), (2, b"b"), (1, b"aa"), (5, b"c")]:
        matcher.push(token_id, token_bytes)
        held.append(matcher.holdback)
    assert held == [2, 3, 2, 0]


def test_stops_before_the_least_number_of_tokens_do_not_count() -> None:
    _, match = run(StopMatcher(["a", "ab"], min_tokens=3), pieces("a", "a", "b", "a"))
    assert match == StopMatch(stop="ab", start_byte=1, end_byte=3, start_token=1)


@given(texts=st.lists(st.text(max_size=3), max_size=8), data=st.data())
def test_a_cut_keeps_exactly_the_bytes_before_it(texts: list[str], data: st.DataObject) -> None:
    whole = "".join(texts).encode()
    width = data.draw(st.integers(1, 3))
    token_bytes = [whole[start : start + width] for start in range(0, len(whole), width)]
    num_bytes = len("".join(texts)[: data.draw(st.integers(0, len("".join(texts))))].encode())
    kept, rest = cut_tokens(range(len(token_bytes)), token_bytes, num_bytes)
    assert b"".join(token_bytes[: len(kept)]) + rest == whole[:num_bytes]
    assert kept == list(range(len(kept)))
    rest.decode()  # what is appended again is text


def test_a_cut_gives_up_no_more_than_the_token_it_is_in() -> None:
    assert cut_tokens([4, 5, 6], [b"ab", b"cd\nOb", b"s"], 4) == ([4], b"cd")
    assert cut_tokens([4, 5, 6], [b"ab", b"cd", b"s"], 4) == ([4, 5], b"")
    assert cut_tokens([4, 5], [b"ab", b"cd"], 0) == ([], b"")


def test_a_cut_keeps_control_tokens_right_before_it() -> None:
    assert cut_tokens([4, 9, 5], [b"ab", b"", b"\nObs"], 2) == ([4, 9], b"")


def test_a_token_boundary_inside_a_character_is_no_place_to_cut() -> None:
    assert cut_tokens([1, 2, 3], [b"a", b"b\xf0\x9f", b"\x98\x80\nO"], 6) == ([1], b"b\xf0\x9f\x98\x80")
