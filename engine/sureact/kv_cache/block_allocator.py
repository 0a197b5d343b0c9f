"""Hands out the blocks of the cache and counts who holds them. Knows nothing of sequences or tensors."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from sureact.kv_cache.prefix_index import PrefixIndex


class BlockAllocator:
    """A free list with reference counts; a published block stays when nobody holds it, until it is reclaimed.

    Not thread-safe: its owner holds a lock.
    """

    def __init__(self, num_blocks: int, index: PrefixIndex) -> None:
        """Start with `num_blocks` free blocks, numbered from 0."""
        self._index = index
        self._free = list(range(num_blocks - 1, -1, -1))
        self._references = [0] * num_blocks
        self._unheld: OrderedDict[int, int] = OrderedDict()
        """Published blocks that nobody holds, each with the clock of its last use, the least recent first."""

    @property
    def num_blocks(self) -> int:
        """All blocks, free and held."""
        return len(self._references)

    @property
    def num_free(self) -> int:
        """Blocks that can be allocated now."""
        return len(self._free)

    @property
    def num_unheld(self) -> int:
        """Published blocks that nobody holds."""
        return len(self._unheld)

    @property
    def oldest_use(self) -> int | None:
        """Clock of the last use of the block that `reclaim_oldest` would take; None if there is none."""
        return next(iter(self._unheld.values()), None)

    def is_shared(self, block: int) -> bool:
        """Whether the block has several holders."""
        return self._references[block] > 1

    def allocate(self, num_blocks: int) -> list[int]:
        """Return `num_blocks` blocks held once each. The caller has checked `num_free`."""
        assert num_blocks <= len(self._free), "allocate more blocks than are free"
        blocks = [self._free.pop() for _ in range(num_blocks)]
        for block in blocks:
            self._references[block] = 1
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """Count one more holder of each block."""
        for block in blocks:
            if self._references[block] == 0:
                assert block in self._unheld, f"block {block} is shared but free"
                del self._unheld[block]
            self._references[block] += 1

    def free(self, blocks: Sequence[int], *, last_used: int, is_oldest: bool = False) -> None:
        """Count one holder less of each block of a sequence, in order.

        Those without holders become free, or if they are published wait to be reclaimed, the last of them first, since
        none is found without those before it.

        Args:
            blocks: what is given back.
            last_used: clock of the last use.
            is_oldest: whether that was before the last use of any block that waits to be reclaimed.
        """
        for block in blocks if is_oldest else reversed(blocks):
            assert self._references[block] > 0, f"block {block} is freed twice"
            self._references[block] -= 1
            if self._references[block]:
                continue
            if self._index.is_published(block):
                self._unheld[block] = last_used
                self._unheld.move_to_end(block, last=not is_oldest)
            else:
                self._free.append(block)

    def reclaim_oldest(self) -> None:
        """Free the least recently used of the published blocks that nobody holds."""
        block, _ = self._unheld.popitem(last=False)
        self._index.unpublish(block)
        self._free.append(block)

    def check(self, tables: Sequence[Sequence[int]]) -> None:
        """Assert that `tables`, all block tables in use, explain every count, and that no block is lost."""
        held = [0] * self.num_blocks
        for table in tables:
            assert len(set(table)) == len(table), f"a table names a block twice: {list(table)}"
            for block in table:
                held[block] += 1
        assert held == self._references, "reference counts differ from the tables"
        unheld = [block for block, count in enumerate(held) if count == 0]
        assert sorted([*self._free, *self._unheld]) == unheld, "blocks are lost"
        assert all(map(self._index.is_published, self._unheld)), "a block waits to be reclaimed but cannot be found"
        assert not any(map(self._index.is_published, self._free)), "a free block is published"
        uses = list(self._unheld.values())
        assert uses == sorted(uses), "blocks are not in the order of their use"
