"""Who holds which part of the cache: growing, sharing, cutting and evicting sequences.

A sequence that no request works on keeps its blocks until others need them; then the least recently used one loses
them all and is computed again when it returns. Not thread-safe: the engine holds a lock around every call.
"""

from sureact.errors import OutOfMemoryError
from sureact.kv_cache.block_allocator import BlockAllocator
from sureact.kv_cache.cached_sequence import CachedSequence


class PagedCache:
    """Accounts for `num_blocks` blocks of `block_size` tokens."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self._allocator = BlockAllocator(num_blocks)
        self._sequences: set[CachedSequence] = set()
        self._clock = 0
        self.num_evictions = 0

    @property
    def num_tokens_total(self) -> int:
        """Tokens that fit altogether."""
        return self._allocator.num_blocks * self.block_size

    @property
    def num_blocks_free(self) -> int:
        """Blocks that no sequence holds."""
        return self._allocator.num_free

    @property
    def num_blocks_total(self) -> int:
        """All blocks."""
        return self._allocator.num_blocks

    def add(self, sequence: CachedSequence) -> None:
        """Begin to account for a new sequence."""
        self._sequences.add(sequence)
        self._touch(sequence)

    def remove(self, sequence: CachedSequence) -> None:
        """Forget a sequence and free its blocks."""
        self._release_blocks(sequence, keep=0)
        self._sequences.discard(sequence)

    def reserve(self, sequence: CachedSequence, num_tokens: int) -> bool:
        """Give `sequence` blocks for `num_tokens` tokens in all, evicting idle sequences if need be.

        Returns:
            False if running sequences hold too much now; nothing has changed then but for evictions.

        Raises:
            OutOfMemoryError: the whole cache is too small.
        """
        needed = -(-num_tokens // self.block_size)
        if needed > self._allocator.num_blocks:
            raise OutOfMemoryError(
                f"A sequence of {num_tokens:,} tokens does not fit into the KV cache of {self.num_tokens_total:,} "
                f"tokens. Lower max_tokens, shorten the prompt, or raise kv_cache_gb."
            )
        self._touch(sequence)
        missing = needed - len(sequence.block_table)
        if missing > 0:
            self._evict_until_free(missing, keep=sequence)
            if self._allocator.num_free < missing:
                return False
            sequence.block_table += self._allocator.allocate(missing)
        return True

    def release_unused(self, sequence: CachedSequence) -> None:
        """Free the blocks behind the last token of `sequence`, reserved for tokens that did not come."""
        self._release_blocks(sequence, keep=-(-len(sequence) // self.block_size))

    def truncate(self, sequence: CachedSequence, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens of `sequence` and the blocks they need."""
        del sequence.token_ids[num_tokens:]
        sequence.num_cached = min(sequence.num_cached, num_tokens)
        self.release_unused(sequence)

    def fork(self, sequence: CachedSequence) -> CachedSequence:
        """Return a copy that shares the full blocks; a block begun but not full is computed again by the copy."""
        num_shared = sequence.num_cached // self.block_size
        shared = sequence.block_table[:num_shared]
        self._allocator.share(shared)
        copy = CachedSequence(list(sequence.token_ids), list(shared), num_shared * self.block_size)
        self.add(copy)
        return copy

    def check(self) -> None:
        """Assert that no block is lost or held twice and that every cached token has a slot."""
        self._allocator.check([sequence.block_table for sequence in self._sequences])
        for sequence in self._sequences:
            assert sequence.num_cached <= len(sequence), "more tokens are cached than there are"
            assert sequence.num_cached <= len(sequence.block_table) * self.block_size, "a cached token has no slot"

    def _touch(self, sequence: CachedSequence) -> None:
        self._clock += 1
        sequence.last_used = self._clock

    def _evict_until_free(self, num_blocks: int, keep: CachedSequence) -> None:
        idle = [s for s in self._sequences if s.block_table and not s.is_running and s is not keep]
        for sequence in sorted(idle, key=lambda s: s.last_used):
            if self._allocator.num_free >= num_blocks:
                return
            self._release_blocks(sequence, keep=0)
            sequence.num_cached = 0
            self.num_evictions += 1

    def _release_blocks(self, sequence: CachedSequence, keep: int) -> None:
        self._allocator.free(sequence.block_table[keep:])
        del sequence.block_table[keep:]
