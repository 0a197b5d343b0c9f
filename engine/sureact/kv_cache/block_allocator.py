"""Hands out the blocks of the cache and counts who holds them. Knows nothing of sequences or tensors."""

from collections.abc import Sequence


class BlockAllocator:
    """A free list with reference counts. Not thread-safe: its owner holds a lock."""

    def __init__(self, num_blocks: int) -> None:
        """Start with `num_blocks` free blocks, numbered from 0."""
        self._free = list(range(num_blocks - 1, -1, -1))
        self._references = [0] * num_blocks

    @property
    def num_blocks(self) -> int:
        """All blocks, free and held."""
        return len(self._references)

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    def allocate(self, num_blocks: int) -> list[int]:
        """Return `num_blocks` blocks held once each. The caller has checked `num_free`."""
        assert num_blocks <= len(self._free), "allocate more blocks than are free"
        blocks = [self._free.pop() for _ in range(num_blocks)]
        for block in blocks:
            self._references[block] = 1
        return blocks

    def share(self, blocks: Sequence[int]) -> None:
        """Count one more holder of each block."""
        for block in blocks:
            assert self._references[block] > 0, f"block {block} is shared but free"
            self._references[block] += 1

    def free(self, blocks: Sequence[int]) -> None:
        """Count one holder less of each block; those without holders become free."""
        for block in blocks:
            assert self._references[block] > 0, f"block {block} is freed twice"
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free.append(block)

    def check(self, tables: Sequence[Sequence[int]]) -> None:
        """Assert that `tables`, all block tables in use, explain every count, and that no block is lost."""
        held = [0] * self.num_blocks
        for table in tables:
            assert len(set(table)) == len(table), f"a table names a block twice: {list(table)}"
            for block in table:
                held[block] += 1
        assert held == self._references, "reference counts differ from the tables"
        assert sorted(self._free) == [block for block, count in enumerate(held) if count == 0], "blocks are lost"
