"""Who holds which part of the cache: growing, sharing, cutting and evicting sequences.

A sequence that no request works on keeps its blocks until others need them; then the least recently used one loses
them all and is computed again when it returns, but for the blocks that can still be found by their tokens.
"""

from collections import OrderedDict
from collections.abc import Sequence

from sureact.errors import OutOfMemoryError
from sureact.kv_cache.block_allocator import BlockAllocator
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.kv_cache.prefix_index import Prefix, PrefixIndex


class PagedCache:
    """Accounts for `num_blocks` blocks of `block_size` tokens. Not thread-safe: the engine locks around every call.

    The order of calls for one pass: `adopt_prefix` where a prompt begins or goes on, `reserve` for what the pass
    computes, `take_copies`, the pass, then `commit`, or `discard` if the pass failed.
    """

    def __init__(self, num_blocks: int, block_size: int, *, has_prefix_cache: bool = True) -> None:
        """Start empty.

        Args:
            num_blocks: blocks altogether.
            block_size: tokens that a block holds.
            has_prefix_cache: whether sequences share what they computed; without, only forks do.
        """
        self.block_size = block_size
        self.num_evictions = 0
        """Sequences that lost their blocks to others."""
        self._has_prefix_cache = has_prefix_cache
        self._index = PrefixIndex(num_blocks, block_size)
        self._allocator = BlockAllocator(num_blocks, self._index)
        self._sequences: set[CachedSequence] = set()
        self._holders: OrderedDict[CachedSequence, None] = OrderedDict()
        """Sequences that hold blocks, and some that do not, the least recently used first."""
        self._copies: list[tuple[int, int]] = []
        self._clock = 0

    @property
    def num_tokens_total(self) -> int:
        """Tokens that fit altogether."""
        return self._allocator.num_blocks * self.block_size

    @property
    def num_blocks_free(self) -> int:
        """Blocks that no sequence holds; some still have content that can be found."""
        return self._allocator.num_free + self._allocator.num_unheld

    @property
    def num_blocks_total(self) -> int:
        """All blocks."""
        return self._allocator.num_blocks

    def declare_public_prefix(self, token_ids: Sequence[int]) -> None:
        """Share the whole blocks of `token_ids` among all sequences that begin with them, whatever their salt."""
        self._index.declare_public(token_ids)

    def clear_prefix_cache(self) -> None:
        """Forget all content that could be found; sequences keep what they hold, and share what they compute next."""
        while self._allocator.num_unheld:
            self._allocator.reclaim_oldest()
        for block in range(self._allocator.num_blocks):
            self._index.unpublish(block)

    def add(self, sequence: CachedSequence) -> None:
        """Begin to account for a new sequence."""
        self._sequences.add(sequence)
        self._touch(sequence)

    def remove(self, sequence: CachedSequence) -> None:
        """Forget a sequence and give its blocks back; those published can still be found."""
        self.release(sequence)
        self._sequences.discard(sequence)

    def adopt_prefix(self, sequence: CachedSequence) -> int:
        """Share blocks that others computed for the tokens after `num_cached`; copy the last one if it differs later.

        At least one token stays to be computed, since its logits are needed.

        Returns:
            Tokens gained.
        """
        if not self._has_prefix_cache:
            return 0
        self._touch(sequence)
        num_before = sequence.num_cached
        self._publish_full_blocks(sequence)
        self._share_full_blocks(sequence)
        self._copy_begun_block(sequence)
        self._index.move_tail(sequence)
        return sequence.num_cached - num_before

    def reserve(self, sequence: CachedSequence, num_tokens: int) -> bool:
        """Give `sequence` blocks for `num_tokens` tokens in all; it may write all positions from `num_cached` on.

        What others hold is replaced, and copied where it has cached tokens. What is idle or unheld is evicted if need
        be, the least recently used first.

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
        # Blocks that were shared may be so no more when their other holders are evicted.
        while self._allocator.num_free < self._num_missing(sequence, needed):
            if not self._reclaim_oldest(keep=sequence):
                return False
        self._cut_prefixes(sequence)
        self._own_written_blocks(sequence)
        missing = needed - len(sequence.block_table)
        if missing > 0:
            sequence.block_table += self._allocator.allocate(missing)
        return True

    def take_copies(self) -> list[tuple[int, int]]:
        """Return the copies `(source, target)` of whole blocks to make, in order, before anything else is written.

        A block may be both target and source, and may have found a new holder since.
        """
        copies = self._copies
        self._copies = []
        return copies

    def commit(self, sequence: CachedSequence, num_cached: int) -> None:
        """Record that the first `num_cached` tokens are computed now; blocks that are full can be found from now on."""
        assert len(sequence.prefixes) * self.block_size <= sequence.num_cached, "a pass wrote what was not reserved"
        sequence.num_cached = num_cached
        if self._has_prefix_cache:
            self._publish_full_blocks(sequence)

    def release(self, sequence: CachedSequence) -> None:
        """Give all blocks back; those published can be adopted again while they last."""
        self._drop_blocks(sequence, last_used=self._clock)

    def discard(self, sequence: CachedSequence) -> list[int]:
        """Give all blocks back after a failed pass, so that what only this sequence held is never found again.

        Returns:
            The blocks that only it held, which may have been written.
        """
        discarded = [block for block in sequence.block_table if not self._allocator.is_shared(block)]
        for block in discarded:
            self._index.unpublish(block)
        self.release(sequence)
        return discarded

    def discard_copies(self, copies: Sequence[tuple[int, int]]) -> None:
        """Discard every sequence that holds the target of a copy that was not made."""
        targets = {target for _, target in copies}
        for sequence in self._sequences:
            if not targets.isdisjoint(sequence.block_table):
                self.discard(sequence)

    def release_unused(self, sequence: CachedSequence) -> None:
        """Free the blocks behind the last token of `sequence`, reserved for tokens that did not come."""
        keep = -(-len(sequence) // self.block_size)
        self._allocator.free(sequence.block_table[keep:], last_used=self._clock)
        del sequence.block_table[keep:]

    def truncate(self, sequence: CachedSequence, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens of `sequence` and the blocks they need."""
        del sequence.token_ids[num_tokens:]
        sequence.num_cached = min(sequence.num_cached, num_tokens)
        self._cut_prefixes(sequence)
        self.release_unused(sequence)

    def fork(self, sequence: CachedSequence) -> CachedSequence:
        """Return a copy that shares all cached blocks; whoever writes into one first gets a block of its own."""
        shared = sequence.block_table[: -(-sequence.num_cached // self.block_size)]
        self._allocator.share(shared)
        copy = CachedSequence(
            list(sequence.token_ids),
            shared,
            sequence.num_cached,
            cache_salt=sequence.cache_salt,
            prefixes=sequence.prefixes[: sequence.num_cached // self.block_size],
        )
        self.add(copy)
        return copy

    def check(self) -> None:
        """Assert that no block is lost, held twice or found with other content, and that cached tokens have slots."""
        self._allocator.check([sequence.block_table for sequence in self._sequences])
        self._index.check(self._sequences)
        for sequence in self._sequences:
            assert sequence.num_cached <= len(sequence), "more tokens are cached than there are"
            assert sequence.num_cached <= len(sequence.block_table) * self.block_size, "a cached token has no slot"
            assert not sequence.block_table or sequence in self._holders, "a holder of blocks cannot be evicted"
        assert set(self._holders) <= self._sequences, "a forgotten sequence may be evicted"
        for source, target in self._copies:
            assert source != target, f"block {source} is copied onto itself"

    def _touch(self, sequence: CachedSequence) -> None:
        self._clock += 1
        sequence.last_used = self._clock
        self._holders[sequence] = None
        self._holders.move_to_end(sequence)

    def _cut_prefixes(self, sequence: CachedSequence) -> None:
        """Forget the prefixes of blocks that are no longer full of cached tokens."""
        num_full = sequence.num_cached // self.block_size
        if len(sequence.prefixes) > num_full:
            del sequence.prefixes[num_full:]
            self._index.move_tail(sequence)

    def _publish_full_blocks(self, sequence: CachedSequence) -> None:
        self._cut_prefixes(sequence)
        num_full = sequence.num_cached // self.block_size
        while (index := len(sequence.prefixes)) < num_full:
            prefix = self._prefix_of_block(sequence, index)
            sequence.prefixes.append(prefix)
            # Another may have computed the same just before: its block is found, this one goes with its sequence.
            self._index.publish(prefix, sequence.block_table[index])
            self._index.move_tail(sequence)
        if sequence.branch is None:
            self._index.move_tail(sequence)

    def _share_full_blocks(self, sequence: CachedSequence) -> None:
        while (index := len(sequence.prefixes)) < (len(sequence) - 1) // self.block_size:
            prefix = self._prefix_of_block(sequence, index)
            if prefix.block is None:
                return
            self._allocator.share([prefix.block])
            self._set_block(sequence, index, prefix.block)
            sequence.prefixes.append(prefix)
            sequence.num_cached = len(sequence.prefixes) * self.block_size

    def _copy_begun_block(self, sequence: CachedSequence) -> None:
        """Copy the block with most of the next tokens. Even one pays: it costs a pass more time than the copy does."""
        index = len(sequence.prefixes)
        start = index * self.block_size
        wanted = sequence.token_ids[start : min(start + self.block_size, len(sequence) - 1)]
        if start + len(wanted) <= sequence.num_cached:
            return
        last = sequence.prefixes[-1] if sequence.prefixes else self._index.root
        source, num_common = self._index.longest_match(last, wanted, sequence.cache_salt)
        if start + num_common <= sequence.num_cached:
            return
        self._allocator.share([source])  # making room must not reclaim it
        while not self._allocator.num_free and self._reclaim_oldest(keep=sequence):
            pass
        if self._allocator.num_free:
            (target,) = self._allocator.allocate(1)
            self._copies.append((source, target))
            self._set_block(sequence, index, target)
            sequence.num_cached = start + num_common
        self._allocator.free([source], last_used=self._clock)

    def _prefix_of_block(self, sequence: CachedSequence, index: int) -> Prefix:
        last = sequence.prefixes[index - 1] if index else self._index.root
        tokens = tuple(sequence.token_ids[index * self.block_size : (index + 1) * self.block_size])
        return self._index.extended(last, tokens, sequence.cache_salt)

    def _set_block(self, sequence: CachedSequence, index: int, block: int) -> None:
        """Put a block that is counted already into the table, and give back what was there."""
        table = sequence.block_table
        self._allocator.free(table[index : index + 1], last_used=self._clock)
        table[index : index + 1] = [block]

    def _num_missing(self, sequence: CachedSequence, num_blocks: int) -> int:
        """Blocks that `sequence` lacks to hold `num_blocks` and to write those that others hold too."""
        table = sequence.block_table
        written = range(sequence.num_cached // self.block_size, len(table))
        return max(0, num_blocks - len(table)) + sum(self._allocator.is_shared(table[index]) for index in written)

    def _own_written_blocks(self, sequence: CachedSequence) -> None:
        """Make all positions from `num_cached` on writable: copy on write, and nobody finds what is overwritten."""
        table = sequence.block_table
        for index in range(sequence.num_cached // self.block_size, len(table)):
            block = table[index]
            if self._allocator.is_shared(block):
                (fresh,) = self._allocator.allocate(1)
                if index * self.block_size < sequence.num_cached:
                    self._copies.append((block, fresh))
                self._set_block(sequence, index, fresh)
            else:
                self._index.unpublish(block)

    def _reclaim_oldest(self, keep: CachedSequence) -> bool:
        """Take a block that nobody holds, or all blocks of an idle sequence, whichever was used least recently."""
        idle = next((s for s in self._holders if not s.is_running and s is not keep), None)
        oldest_use = self._allocator.oldest_use
        if oldest_use is not None and (idle is None or oldest_use <= idle.last_used):
            self._allocator.reclaim_oldest()
        elif idle is not None:
            self.num_evictions += bool(idle.block_table)
            self._drop_blocks(idle, last_used=idle.last_used, is_oldest=True)
        return oldest_use is not None or idle is not None

    def _drop_blocks(self, sequence: CachedSequence, *, last_used: int, is_oldest: bool = False) -> None:
        self._allocator.free(sequence.block_table, last_used=last_used, is_oldest=is_oldest)
        sequence.block_table.clear()
        sequence.num_cached = 0
        sequence.prefixes.clear()
        self._index.drop_tail(sequence)
        self._holders.pop(sequence, None)
