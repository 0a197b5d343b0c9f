import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.kv_cache.block_allocator import BlockAllocator
from sureact.kv_cache.prefix_index import PrefixIndex


def allocator_with(num_blocks: int) -> tuple[BlockAllocator, PrefixIndex]:
    index = PrefixIndex(num_blocks, block_size=1)
    return BlockAllocator(num_blocks, index), index


def publish(index: PrefixIndex, block: int, token_id: int) -> None:
    if not index.is_published(block):
        index.publish(index.extended(index.root, (token_id,), None), block)


@given(st.data())
def test_no_block_is_lost_or_handed_out_twice(data: st.DataObject) -> None:
    allocator, index = allocator_with(8)
    tables: list[list[int]] = []
    for clock in range(data.draw(st.integers(1, 30))):
        action = data.draw(st.sampled_from(["allocate", "share", "free", "publish", "reclaim"]))
        if action == "allocate" and allocator.num_free:
            tables.append(allocator.allocate(data.draw(st.integers(1, allocator.num_free))))
        elif action == "share" and tables:
            table = data.draw(st.sampled_from(tables))
            allocator.share(table)
            tables.append(list(table))
        elif action == "free" and tables:
            allocator.free(tables.pop(data.draw(st.integers(0, len(tables) - 1))), last_used=clock)
        elif action == "publish" and tables:
            publish(index, data.draw(st.sampled_from(tables))[0], data.draw(st.integers(0, 3)))
        elif action == "reclaim" and allocator.num_unheld:
            allocator.reclaim_oldest()
        allocator.check(tables)
        index.check([])
    for table in tables:
        allocator.free(table, last_used=100)
    assert allocator.num_free + allocator.num_unheld == allocator.num_blocks


def test_a_published_block_stays_when_nobody_holds_it_and_may_be_shared_again() -> None:
    allocator, index = allocator_with(2)
    (block,) = allocator.allocate(1)
    publish(index, block, 7)
    allocator.free([block], last_used=1)
    assert (allocator.num_free, allocator.num_unheld) == (1, 1)
    allocator.share([block])
    assert (allocator.num_free, allocator.num_unheld) == (1, 0)
    allocator.check([[block]])


def test_blocks_are_reclaimed_by_their_last_use_and_from_the_tail() -> None:
    allocator, index = allocator_with(5)
    blocks = allocator.allocate(5)
    for block in blocks:
        publish(index, block, block)
    allocator.free(blocks[:2], last_used=3)
    allocator.free(blocks[2:4], last_used=2, is_oldest=True)
    allocator.free(blocks[4:], last_used=4)
    order: list[int] = []
    while allocator.oldest_use is not None:
        allocator.reclaim_oldest()
        order += [block for block in blocks if not index.is_published(block) and block not in order]
    assert order == [blocks[3], blocks[2], blocks[1], blocks[0], blocks[4]]


def test_freeing_a_free_block_is_a_bug_that_shows() -> None:
    allocator, _ = allocator_with(2)
    (block,) = allocator.allocate(1)
    allocator.free([block], last_used=0)
    with pytest.raises(AssertionError, match="freed twice"):
        allocator.free([block], last_used=0)


def test_sharing_a_free_block_is_a_bug_that_shows() -> None:
    allocator, _ = allocator_with(2)
    with pytest.raises(AssertionError, match="shared but free"):
        allocator.share([1])


def test_check_finds_a_lost_block() -> None:
    allocator, _ = allocator_with(2)
    allocator.allocate(1)
    with pytest.raises(AssertionError, match="differ"):
        allocator.check([])
