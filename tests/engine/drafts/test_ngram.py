"""N-grams are found where they stood last, whatever happened to the text in between."""

import time

from hypothesis import given
from hypothesis import strategies as st

from sureact.drafts.ngram import NGRAM_LENS, NgramIndex

TOKENS = st.lists(st.integers(0, 2), max_size=12)
EDITS = st.lists(st.tuples(st.integers(0, 12), TOKENS, st.booleans()), max_size=12)
"""Each: tokens cut from the end, tokens added, and whether the index is told now or only later."""


def proposed(token_ids: list[int], max_len: int = 4) -> list[int]:
    index = NgramIndex()
    index.update(token_ids)
    return index.propose(token_ids, max_len)


def continuations(token_ids: list[int]) -> list[list[int]]:
    """What followed each earlier occurrence of the longest known suffix, the latest occurrence first."""
    for length in NGRAM_LENS:
        suffix = token_ids[-length:]
        ends = range(len(token_ids) - 1, length - 1, -1)
        found = [token_ids[end:] for end in ends if token_ids[end - length : end] == suffix]
        if found:
            return found
    return []


def test_what_followed_the_last_tokens_before_is_proposed() -> None:
    assert proposed([1, 2, 3, 4, 5, 6, 7, 1, 2, 3]) == [4, 5, 6, 7]
    assert proposed([1, 2, 3, 4, 5, 6, 7, 1, 2, 3], max_len=2) == [4, 5]


def test_the_latest_of_several_occurrences_counts() -> None:
    assert proposed([1, 2, 7, 1, 2, 8, 1, 2]) == [8, 1, 2]


def test_a_longer_suffix_counts_more_than_a_later_occurrence() -> None:
    assert proposed([1, 2, 3, 7, 9, 2, 3, 8, 1, 2, 3]) == [7, 9, 2, 3]


def test_one_token_alone_proves_nothing() -> None:
    assert proposed([1, 2, 3, 1]) == []


def test_nothing_is_proposed_for_new_empty_or_short_text() -> None:
    assert proposed([]) == proposed([1]) == proposed([1, 1]) == proposed([1, 2, 3, 4]) == []


def test_a_proposal_ends_where_the_text_ends() -> None:
    assert proposed([5, 5, 5]) == [5]


def test_a_proposal_of_no_tokens_is_empty() -> None:
    assert proposed([1, 2, 3, 1, 2], max_len=0) == []


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(0, 6))
def test_a_proposal_is_what_followed_the_longest_known_suffix_last(token_ids: list[int], max_len: int) -> None:
    expected = continuations(token_ids)
    assert proposed(token_ids, max_len) == (expected[0][:max_len] if expected else [])


@given(EDITS)
def test_an_index_that_follows_edits_equals_a_new_one(edits: list[tuple[int, list[int], bool]]) -> None:
    index = NgramIndex()
    token_ids: list[int] = []
    for num_cut, added, is_told in edits:
        del token_ids[max(0, len(token_ids) - num_cut) :]
        token_ids += added
        # A text within the compared length hides no change, however late the index is told.
        del token_ids[32:]
        if is_told:
            index.update(token_ids)
    index.update(token_ids)
    assert index.propose(token_ids, 5) == proposed(token_ids, 5)


@given(st.integers(0, 60), TOKENS, st.lists(st.integers(0, 2), min_size=40, max_size=60))
def test_a_truncation_of_any_length_brings_earlier_occurrences_back(
    num_kept: int, added: list[int], token_ids: list[int]
) -> None:
    index = NgramIndex()
    index.update(token_ids)
    token_ids = token_ids[:num_kept]
    index.update(token_ids)
    token_ids += added
    index.update(token_ids)
    assert index.propose(token_ids, 5) == proposed(token_ids, 5)


@given(st.lists(st.integers(0, 2), min_size=50, max_size=50), st.lists(st.integers(0, 2), min_size=10, max_size=10))
def test_even_after_a_change_it_missed_a_proposal_stands_in_the_text(old: list[int], replacement: list[int]) -> None:
    tail = [0, 1, 2, 1] * 10
    index = NgramIndex()
    index.update(old + tail)
    token_ids = old[:40] + replacement + tail
    index.update(token_ids)
    proposal = index.propose(token_ids, 5)
    assert any(found[: len(proposal)] == proposal for found in continuations(token_ids))


def test_a_step_takes_microseconds_in_a_long_text() -> None:
    token_ids = [i * i % 997 for i in range(20_000)]
    index = NgramIndex()
    index.update(token_ids)
    seconds: list[float] = []
    for i in range(200):
        token_ids.append(i % 7)
        start = time.perf_counter()
        index.update(token_ids)
        index.propose(token_ids, 8)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 200e-6


def test_a_copy_knows_the_text_and_goes_its_own_way() -> None:
    index = NgramIndex()
    index.update([1, 2, 3, 4, 1, 2])
    copy = index.copy()
    assert copy.propose([1, 2, 3, 4, 1, 2], 2) == [3, 4]
    copy.update([1, 2, 9, 1, 2])
    index.update([1, 2, 3, 4, 1, 2, 5, 1, 2])
    assert copy.propose([1, 2, 9, 1, 2], 2) == [9, 1]
    assert index.propose([1, 2, 3, 4, 1, 2, 5, 1, 2], 2) == [5, 1]


def test_a_long_text_is_indexed_in_pieces_so_that_no_step_waits_long() -> None:
    token_ids = [i * i % 9973 for i in range(32_000)]
    seconds: list[float] = []
    index = NgramIndex()
    for _ in range(9):
        start = time.perf_counter()
        index.update(token_ids)
        seconds.append(time.perf_counter() - start)
    at_once = NgramIndex()
    for end in range(0, len(token_ids) + 1, 1000):
        at_once.update(token_ids[:end])
    tail = token_ids[30_000:30_010]
    for known in (index, at_once):
        known.update(token_ids + tail)
    assert index.propose(token_ids + tail, 5) == at_once.propose(token_ids + tail, 5) != []
    assert max(seconds) < sum(seconds) / 3


def test_a_long_text_that_is_cut_to_little_is_begun_anew() -> None:
    index = NgramIndex()
    token_ids = list(range(12_000))
    for _ in range(3):
        index.update(token_ids)
    index.update([1, 2, 3, 1, 2])
    assert index.propose([1, 2, 3, 1, 2], 2) == [3, 1]
