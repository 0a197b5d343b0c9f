import torch
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.token_bitmask import (
    allocate_token_bitmask,
    clear_token,
    is_token_allowed,
    legal_bitmask,
    num_bitmask_words,
    read_token_ids,
    write_token_ids,
)
from sureact.tokens.vocabulary import Vocabulary

id_sets = st.sets(st.integers(0, 99))


def test_a_bitmask_has_a_bit_for_every_row_of_the_head() -> None:
    assert [num_bitmask_words(count) for count in (1, 32, 33, 151_936)] == [1, 1, 2, 4748]


def test_a_fresh_bitmask_allows_nothing() -> None:
    bitmask = allocate_token_bitmask(2, 100)
    assert bitmask.shape == (2, 4)
    assert bitmask.dtype == torch.int32
    assert read_token_ids(bitmask, 1) == []


@given(id_sets, id_sets)
def test_what_is_written_is_read_and_other_rows_stay(first: set[int], second: set[int]) -> None:
    bitmask = allocate_token_bitmask(2, 100)
    write_token_ids(bitmask, 0, first)
    write_token_ids(bitmask, 1, second)
    assert read_token_ids(bitmask, 0) == sorted(first)
    assert read_token_ids(bitmask, 1) == sorted(second)
    assert [token_id for token_id in range(100) if is_token_allowed(bitmask, 0, token_id)] == sorted(first)


@given(id_sets, st.integers(0, 99))
def test_clearing_takes_one_token_away(token_ids: set[int], token_id: int) -> None:
    bitmask = allocate_token_bitmask(1, 100)
    write_token_ids(bitmask, 0, token_ids)
    clear_token(bitmask, 0, token_id)
    assert read_token_ids(bitmask, 0) == sorted(token_ids - {token_id})


def test_the_bit_of_a_token_is_where_the_interface_says() -> None:
    bitmask = allocate_token_bitmask(1, 64)
    write_token_ids(bitmask, 0, [0, 31, 33])
    assert bitmask.tolist() == [[1 - 2**31, 2]]


def test_text_and_ends_are_legal_and_control_and_unused_ids_are_not(vocabulary: Vocabulary) -> None:
    legal = read_token_ids(legal_bitmask(vocabulary), 0)
    assert set(range(vocabulary.num_logits)) - set(legal) == {257, 258, 259}
    assert 257 in read_token_ids(legal_bitmask(vocabulary, frozenset({257})), 0)
    assert 258 not in read_token_ids(legal_bitmask(vocabulary, frozenset({258})), 0)
