import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.kv_cache.block_allocator import BlockAllocator


@given(st.data())
def test_no_block_is_lost_or_handed_out_twice(data: st.DataObject) -> None:
    allocator = BlockAllocator(8)
    tables: list[list[int]] = []
    for _ in range(data.draw(st.integers(1, 30))):
        action = data.draw(st.sampled_from(["allocate", "share", "free"]))
        if action == "allocate" and allocator.num_free:
            tables.append(allocator.allocate(data.draw(st.integers(1, allocator.num_free))))
        elif action == "share" and tables:
            table = data.draw(st.sampled_from(tables))
            allocator.share(table)
            tables.append(list(table))
        elif action == "free" and tables:
            allocator.free(tables.pop(data.draw(st.integers(0, len(tables) - 1))))
        allocator.check(tables)
    for table in tables:
        allocator.free(table)
    assert allocator.num_free == allocator.num_blocks


def test_freeing_a_free_block_is_a_bug_that_shows() -> None:
    allocator = BlockAllocator(2)
    (block,) = allocator.allocate(1)
    allocator.free([block])
    with pytest.raises(AssertionError, match="freed twice"):
        allocator.free([block])


def test_check_finds_a_lost_block() -> None:
    allocator = BlockAllocator(2)
    allocator.allocate(1)
    with pytest.raises(AssertionError, match="differ"):
        allocator.check([])
