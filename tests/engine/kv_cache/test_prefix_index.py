import gc
import sys
from typing import Any

import pytest

from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.kv_cache.prefix_index import Prefix, PrefixIndex


def prefix_of(index: PrefixIndex, *blocks: tuple[int, ...], salt: str | None = None) -> Prefix:
    prefix = index.root
    for block in blocks:
        prefix = index.extended(prefix, block, salt)
    return prefix


def test_equal_prefixes_are_one_and_others_are_not() -> None:
    index = PrefixIndex(4, block_size=2)
    ab = prefix_of(index, (1, 2), (3, 4))
    assert prefix_of(index, (1, 2), (3, 4)) is ab
    assert prefix_of(index, (3, 4), (3, 4)) is not ab
    assert prefix_of(index, (1, 2), (3, 5)) is not ab


@pytest.mark.parametrize("salt", [(1, 2), (), "1"])
def test_a_salt_is_never_taken_for_a_block_whatever_it_is(salt: Any) -> None:
    index = PrefixIndex(4, block_size=2)
    unsalted = prefix_of(index, (1, 2), (3, 4))
    index.publish(unsalted, 3)
    assert prefix_of(index, (3, 4), salt=salt) is not unsalted
    assert index.longest_match(index.root, [3, 4], salt) == (-1, 0)


def test_tokens_whose_hashes_collide_are_told_apart() -> None:
    index = PrefixIndex(4, block_size=2)
    colliding = sys.hash_info.modulus  # hash(0) == hash(sys.hash_info.modulus)
    first = prefix_of(index, (0, 1), (5, 6))
    index.publish(first, 3)
    assert hash((0, 1)) == hash((colliding, 1))
    second = prefix_of(index, (colliding, 1), (5, 6))
    assert second is not first
    assert second.block is None


def test_a_block_is_found_until_it_is_unpublished() -> None:
    index = PrefixIndex(4, block_size=2)
    prefix = prefix_of(index, (1, 2))
    index.publish(prefix, 3)
    index.publish(prefix, 2)
    assert (prefix.block, index.is_published(3), index.is_published(2)) == (3, True, False)
    index.unpublish(3)
    index.unpublish(3)
    assert prefix.block is None
    index.check([])


def test_a_block_written_while_it_could_be_found_is_a_bug_that_shows() -> None:
    index = PrefixIndex(4, block_size=1)
    index.publish(prefix_of(index, (1,)), 0)
    with pytest.raises(AssertionError, match="could be found"):
        index.publish(prefix_of(index, (2,)), 0)


def test_a_block_is_found_again_after_the_one_before_it_was_reclaimed_and_computed_again() -> None:
    index = PrefixIndex(4, block_size=2)
    index.publish(prefix_of(index, (1, 2)), 0)
    index.publish(prefix_of(index, (1, 2), (3, 4)), 1)
    index.unpublish(0)
    gc.collect()
    index.publish(prefix_of(index, (1, 2)), 2)
    assert prefix_of(index, (1, 2), (3, 4)).block == 1


def test_prefixes_that_nothing_needs_go() -> None:
    index = PrefixIndex(4, block_size=1)
    prefix = prefix_of(index, *[(token_id,) for token_id in range(20_000)])
    index.publish(prefix, 0)
    index.unpublish(0)
    assert len(index._prefixes) == 20_000  # pyright: ignore[reportPrivateUsage]
    del prefix
    assert len(index._prefixes) == 0  # pyright: ignore[reportPrivateUsage]


def test_salts_are_apart_but_for_whole_blocks_of_public_prefixes() -> None:
    index = PrefixIndex(8, block_size=2)
    index.declare_public([1, 2, 3, 4, 5])
    blocks = [(1, 2), (3, 4), (5, 6), (7, 8)]
    for num_blocks in (1, 2):
        prefixes = {id(prefix_of(index, *blocks[:num_blocks], salt=salt)) for salt in (None, "a", "b")}
        assert len(prefixes) == 1
    for num_blocks in (3, 4):
        kept = [prefix_of(index, *blocks[:num_blocks], salt=salt) for salt in (None, "a", "b", "")]
        assert len({id(prefix) for prefix in kept}) == 4
    assert prefix_of(index, (3, 4), salt="a") is not prefix_of(index, (3, 4))


def test_the_longest_match_is_a_published_child_or_a_begun_block_of_the_same_salt() -> None:
    index = PrefixIndex(8, block_size=4)
    child = prefix_of(index, (1, 2, 3, 4))
    index.publish(child, 5)
    assert index.longest_match(index.root, [1, 2, 9], None) == (5, 2)
    begun = CachedSequence([1, 2, 9, 8], [6], num_cached=3)
    index.move_tail(begun)
    assert index.longest_match(index.root, [1, 2, 9, 8], None) == (6, 3)
    assert index.longest_match(index.root, [1, 2, 9, 8], "salt") == (-1, 0)
    index.drop_tail(begun)
    assert index.longest_match(index.root, [1, 2, 9, 8], None) == (5, 2)
    assert index.longest_match(index.root, [7], None) == (-1, 0)


def test_check_finds_a_block_with_two_names() -> None:
    index = PrefixIndex(4, block_size=1)
    first, second = prefix_of(index, (1,)), prefix_of(index, (2,))
    index.publish(first, 0)
    second.block = 0
    index.root.children[second] = None
    with pytest.raises(AssertionError, match="another's"):
        index.check([])
