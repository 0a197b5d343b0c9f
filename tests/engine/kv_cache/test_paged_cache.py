import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.errors import OutOfMemoryError
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.kv_cache.paged_cache import PagedCache


def sequence_in(cache: PagedCache, num_tokens: int, *, num_cached: int | None = None) -> CachedSequence:
    sequence = CachedSequence(list(range(num_tokens)))
    cache.add(sequence)
    assert cache.reserve(sequence, num_tokens)
    sequence.num_cached = num_tokens if num_cached is None else num_cached
    return sequence


def test_a_sequence_gets_blocks_for_the_tokens_it_may_reach() -> None:
    cache = PagedCache(num_blocks=10, block_size=4)
    sequence = sequence_in(cache, 5)
    assert len(sequence.block_table) == 2
    assert cache.reserve(sequence, 17)
    assert len(sequence.block_table) == 5
    cache.release_unused(sequence)
    assert len(sequence.block_table) == 2


def test_the_least_recently_used_idle_sequence_is_evicted_first() -> None:
    cache = PagedCache(num_blocks=6, block_size=4)
    first, second = sequence_in(cache, 8), sequence_in(cache, 8)
    cache.reserve(first, 8)
    sequence_in(cache, 12)
    assert (first.num_cached, second.num_cached) == (8, 0)
    assert second.token_ids == list(range(8))
    assert cache.num_evictions == 1
    cache.check()


def test_a_running_sequence_is_never_evicted() -> None:
    cache = PagedCache(num_blocks=4, block_size=4)
    running = sequence_in(cache, 12)
    running.is_running = True
    other = CachedSequence(list(range(8)))
    cache.add(other)
    assert not cache.reserve(other, 8)
    assert running.num_cached == 12
    cache.check()


def test_a_sequence_longer_than_the_whole_cache_is_refused_with_numbers() -> None:
    cache = PagedCache(num_blocks=2, block_size=4)
    with pytest.raises(OutOfMemoryError, match=r"9 tokens.*8 tokens.*kv_cache_gb"):
        sequence_in(cache, 9)


def test_a_fork_shares_full_blocks_and_computes_the_rest_again() -> None:
    cache = PagedCache(num_blocks=10, block_size=4)
    sequence = sequence_in(cache, 11)
    copy = cache.fork(sequence)
    assert copy.block_table == sequence.block_table[:2]
    assert copy.num_cached == 8
    assert copy.token_ids == sequence.token_ids
    cache.remove(sequence)
    assert copy.num_cached == 8
    cache.check()


@given(st.data())
def test_books_stay_right_under_any_sequence_of_calls(data: st.DataObject) -> None:
    cache = PagedCache(num_blocks=7, block_size=2)
    sequences: list[CachedSequence] = []
    for _ in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["new", "grow", "truncate", "fork", "remove"]))
        if action == "new" or not sequences:
            sequence = CachedSequence()
            cache.add(sequence)
            sequences.append(sequence)
            continue
        sequence = data.draw(st.sampled_from(sequences))
        if action == "grow":
            wanted = data.draw(st.integers(0, 14))
            sequence.token_ids += [0] * max(0, wanted - len(sequence))
            if cache.reserve(sequence, len(sequence)):
                sequence.num_cached = len(sequence)
        elif action == "truncate":
            cache.truncate(sequence, data.draw(st.integers(0, len(sequence))))
        elif action == "fork":
            sequences.append(cache.fork(sequence))
        else:
            sequences.remove(sequence)
            cache.remove(sequence)
        cache.check()
