import pytest
from hypothesis import settings
from tests.engine.kv_cache.content_machine import CachedContent

from sureact.errors import OutOfMemoryError
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.kv_cache.paged_cache import PagedCache


def computed(cache: PagedCache, sequence: CachedSequence, *, num_cached: int | None = None) -> CachedSequence:
    """Account for a sequence and compute its tokens."""
    cache.add(sequence)
    assert cache.reserve(sequence, len(sequence))
    cache.commit(sequence, len(sequence) if num_cached is None else num_cached)
    cache.check()
    return sequence


def sequence_in(cache: PagedCache, num_tokens: int, *, first: int = 0) -> CachedSequence:
    return computed(cache, CachedSequence(list(range(first, first + num_tokens))))


def adopted(cache: PagedCache, token_ids: list[int], salt: str | None = None) -> CachedSequence:
    sequence = CachedSequence(token_ids, cache_salt=salt)
    cache.add(sequence)
    assert cache.adopt_prefix(sequence) == sequence.num_cached
    cache.check()
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
    first, second = sequence_in(cache, 8), sequence_in(cache, 8, first=100)
    cache.reserve(first, 8)
    sequence_in(cache, 12, first=200)
    assert (first.num_cached, second.num_cached) == (8, 0)
    assert second.token_ids == list(range(100, 108))
    assert cache.num_evictions == 1
    cache.check()


def test_a_running_sequence_is_never_evicted() -> None:
    cache = PagedCache(num_blocks=4, block_size=4)
    running = sequence_in(cache, 12)
    running.is_running = True
    other = CachedSequence(list(range(50, 58)))
    cache.add(other)
    assert not cache.reserve(other, 8)
    assert (running.num_cached, other.block_table) == (12, [])
    cache.check()


def test_a_sequence_keeps_its_own_blocks_when_it_gets_no_more() -> None:
    cache = PagedCache(num_blocks=4, block_size=4)
    sequence_in(cache, 8).is_running = True
    idle = sequence_in(cache, 5, first=50)
    assert not cache.reserve(idle, 12)
    assert idle.num_cached == 5
    cache.check()


def test_a_sequence_longer_than_the_whole_cache_is_refused_with_numbers() -> None:
    cache = PagedCache(num_blocks=2, block_size=4)
    with pytest.raises(OutOfMemoryError, match=r"9 tokens.*8 tokens.*kv_cache_gb"):
        sequence_in(cache, 9)


def test_full_blocks_of_another_sequence_are_shared() -> None:
    cache = PagedCache(num_blocks=10, block_size=4)
    first = sequence_in(cache, 8)
    second = adopted(cache, [*range(8), 50, 51])
    assert second.block_table == first.block_table
    assert second.num_cached == 8
    assert cache.take_copies() == []


def test_blocks_of_a_removed_sequence_are_found_until_they_are_reclaimed() -> None:
    cache = PagedCache(num_blocks=4, block_size=4)
    cache.remove(sequence_in(cache, 8))
    assert cache.num_blocks_free == 4
    again = adopted(cache, list(range(9)))
    assert (again.num_cached, cache.num_blocks_free) == (8, 2)
    cache.remove(again)
    cache.remove(sequence_in(cache, 12, first=100))
    assert adopted(cache, list(range(9))).num_cached == 4


def test_at_least_one_token_stays_to_be_computed() -> None:
    cache = PagedCache(num_blocks=10, block_size=4)
    first = sequence_in(cache, 8)
    second = adopted(cache, list(range(8)))
    assert second.num_cached == 7
    assert second.block_table[0] == first.block_table[0]
    assert cache.take_copies() == [(first.block_table[1], second.block_table[1])]
    assert cache.adopt_prefix(second) == 0


def test_the_beginning_of_a_full_block_and_of_a_begun_block_is_copied() -> None:
    cache = PagedCache(num_blocks=10, block_size=4)
    first = sequence_in(cache, 7)
    second = adopted(cache, [0, 1, 2, 9, 9])
    third = adopted(cache, [0, 1, 2, 3, 4, 5, 9, 9])
    assert (second.num_cached, third.num_cached) == (3, 6)
    assert cache.take_copies() == [
        (first.block_table[0], second.block_table[0]),
        (first.block_table[1], third.block_table[1]),
    ]
    assert cache.take_copies() == []


def test_only_computed_tokens_of_a_begun_block_are_copied() -> None:
    cache = PagedCache(num_blocks=10, block_size=4)
    computed(cache, CachedSequence(list(range(4))), num_cached=2)
    assert adopted(cache, list(range(4))).num_cached == 2


def test_a_prompt_takes_over_what_another_computes_meanwhile() -> None:
    cache = PagedCache(num_blocks=10, block_size=4)
    first, second = (CachedSequence(list(range(12))) for _ in range(2))
    computed(cache, first, num_cached=2)
    computed(cache, second, num_cached=3)
    cache.reserve(first, 12)
    cache.commit(first, 10)
    assert cache.adopt_prefix(second) == 7
    assert second.block_table[:2] == first.block_table[:2]
    cache.check()


def test_two_that_compute_the_same_at_once_keep_their_own_blocks() -> None:
    cache = PagedCache(num_blocks=5, block_size=4)
    first, second = sequence_in(cache, 8), sequence_in(cache, 8)
    assert not set(first.block_table) & set(second.block_table)
    cache.remove(first)
    cache.check()
    assert adopted(cache, list(range(9))).num_cached == 8
    assert second.num_cached == 8


def test_salts_share_nothing_but_whole_blocks_of_a_public_prefix() -> None:
    cache = PagedCache(num_blocks=20, block_size=4)
    cache.declare_public_prefix(range(6))
    computed(cache, CachedSequence(list(range(12)), cache_salt="a"))
    assert adopted(cache, list(range(12)), "a").num_cached == 11
    assert adopted(cache, list(range(12)), "b").num_cached == 4
    assert adopted(cache, list(range(12))).num_cached == 4
    assert adopted(cache, [0, 1, 2, 9, 9], "b").num_cached == 0


def test_a_fork_shares_the_begun_block_until_either_writes() -> None:
    cache = PagedCache(num_blocks=10, block_size=4)
    sequence = sequence_in(cache, 11)
    copy = cache.fork(sequence)
    before = list(sequence.block_table)
    assert (copy.block_table, copy.num_cached, copy.token_ids) == (before, 11, sequence.token_ids)
    assert cache.reserve(sequence, 12)
    assert cache.take_copies() == [(before[2], sequence.block_table[2])]
    assert cache.reserve(copy, 12)
    assert cache.take_copies() == []
    assert (copy.block_table, sequence.block_table[:2]) == (before, before[:2])
    cache.remove(sequence)
    assert copy.num_cached == 11
    cache.check()


def test_a_block_is_not_found_any_more_once_it_is_written_again() -> None:
    cache = PagedCache(num_blocks=10, block_size=4)
    sequence = sequence_in(cache, 8)
    cache.truncate(sequence, 6)
    cache.check()
    assert adopted(cache, list(range(9))).num_cached == 8, "nothing is overwritten yet"
    sequence.token_ids += [50, 51]
    assert cache.reserve(sequence, 8)
    assert len(cache.take_copies()) == 1, "another holds the block now"
    cache.truncate(sequence, 2)
    cache.release(sequence)
    alone = adopted(cache, [0, 1, 2, 3, 9])
    cache.clear_prefix_cache()
    assert cache.reserve(alone, 5)
    cache.check()


def test_a_block_that_one_sequence_alone_holds_is_written_in_place() -> None:
    cache = PagedCache(num_blocks=4, block_size=4)
    sequence = sequence_in(cache, 8)
    table = list(sequence.block_table)
    cache.truncate(sequence, 6)
    sequence.token_ids += [50, 51]
    assert cache.reserve(sequence, 8)
    cache.commit(sequence, 8)
    assert (sequence.block_table, cache.take_copies()) == (table, [])
    assert adopted(cache, list(range(9))).num_cached == 6
    cache.check()


def test_a_pass_that_was_not_reserved_is_a_bug_that_shows() -> None:
    cache = PagedCache(num_blocks=4, block_size=4)
    sequence = sequence_in(cache, 8)
    sequence.num_cached = 6
    with pytest.raises(AssertionError, match="not reserved"):
        cache.commit(sequence, 8)


def test_a_released_sequence_finds_its_full_blocks_again() -> None:
    cache = PagedCache(num_blocks=4, block_size=4)
    sequence = sequence_in(cache, 10)
    table = list(sequence.block_table)
    cache.release(sequence)
    assert (sequence.num_cached, sequence.block_table) == (0, [])
    assert cache.adopt_prefix(sequence) == 8
    assert sequence.block_table == table[:2]
    cache.check()


def test_what_a_failed_pass_may_have_written_is_never_found() -> None:
    cache = PagedCache(num_blocks=10, block_size=4)
    other = sequence_in(cache, 4)
    failed = computed(cache, CachedSequence(list(range(10))))
    shared = adopted(cache, list(range(5)))
    table = list(failed.block_table)
    assert cache.discard(failed) == table
    assert failed.num_cached == 0
    cache.check()
    assert cache.discard(shared) == []
    assert adopted(cache, list(range(11))).num_cached == 4
    assert other.num_cached == 4


def test_without_a_prefix_cache_only_forks_share() -> None:
    cache = PagedCache(num_blocks=10, block_size=4, has_prefix_cache=False)
    sequence = sequence_in(cache, 10)
    assert adopted(cache, list(range(10))).num_cached == 0
    assert cache.fork(sequence).num_cached == 10
    cache.check()
    cache.release(sequence)
    assert cache.adopt_prefix(sequence) == 0


def test_a_cleared_cache_finds_nothing_and_takes_nothing_from_live_sequences() -> None:
    cache = PagedCache(num_blocks=10, block_size=4)
    live = sequence_in(cache, 8)
    cache.remove(sequence_in(cache, 8, first=100))
    cache.clear_prefix_cache()
    cache.check()
    assert live.num_cached == 8
    assert adopted(cache, list(range(9))).num_cached == 0
    assert adopted(cache, list(range(100, 109))).num_cached == 0


def test_unheld_blocks_and_idle_sequences_go_by_their_last_use() -> None:
    cache = PagedCache(num_blocks=4, block_size=4)
    cache.remove(sequence_in(cache, 4))
    idle = sequence_in(cache, 4, first=100)
    cache.remove(sequence_in(cache, 4, first=200))
    sequence_in(cache, 8, first=300).is_running = True
    assert idle.num_cached == 4
    assert adopted(cache, [*range(200, 205)]).num_cached == 4
    assert adopted(cache, list(range(5))).num_cached == 0


def test_whoever_holds_the_target_of_a_failed_copy_loses_its_blocks_and_nobody_finds_them() -> None:
    cache = PagedCache(10, block_size=4)
    original = computed(cache, CachedSequence(list(range(6))))
    fork = cache.fork(original)
    fork.token_ids.append(50)
    assert cache.reserve(fork, 7)
    (copy,) = cache.take_copies()
    second = cache.fork(fork)
    cache.discard_copies([copy])
    cache.check()
    assert (fork.num_cached, second.num_cached, original.num_cached) == (0, 0, 6)
    assert fork.block_table == second.block_table == []
    cache.discard_copies([])
    assert original.num_cached == 6
    assert cache.reserve(fork, 7)
    cache.commit(fork, 7)
    cache.check()


class ContentWithoutPrefixCache(CachedContent):
    has_prefix_cache = False


class TestNoSequenceReadsWhatAnotherTextOrSaltComputed(CachedContent.TestCase):
    settings = settings(max_examples=250, stateful_step_count=50, deadline=None)


class TestForksReadTheirOwnContentWithoutAPrefixCache(ContentWithoutPrefixCache.TestCase):
    settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


@pytest.mark.slow
class TestContentAtLength(CachedContent.TestCase):
    settings = settings(max_examples=3_000, stateful_step_count=60, deadline=None)
