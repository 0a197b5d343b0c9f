"""Drives the cache at random beside a naive model of what its blocks hold.

A slot of the model holds the tokens that its keys and values were computed from, and the salt of the writer: no
sequence may ever read what was computed from other tokens, or under another salt.
"""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.kv_cache.paged_cache import PagedCache

BLOCK_SIZE = 3
NUM_BLOCKS = 9
SALTS = (None, "a", "b")

# Few tokens, so that prefixes coincide.
token_lists = st.lists(st.integers(0, 1), min_size=1, max_size=7)


@dataclass(frozen=True)
class Content:
    """What the keys and values of one token were computed from."""

    token_ids: tuple[int, ...]
    """The token and all before it."""
    salt: str | None


Block = tuple[Content | None, ...]
EMPTY: Block = (None,) * BLOCK_SIZE


class CachedContent(RuleBasedStateMachine):
    """Calls the cache as the engine does, and in ways that it should survive."""

    has_prefix_cache = True

    def __init__(self) -> None:
        super().__init__()
        self.cache = PagedCache(NUM_BLOCKS, BLOCK_SIZE, has_prefix_cache=self.has_prefix_cache)
        self.sequences: list[CachedSequence] = []
        self.blocks = [EMPTY] * NUM_BLOCKS
        self.copies: list[tuple[int, int]] = []
        self.public: list[list[int]] = []
        self.sequences.append(CachedSequence([0, 1] * BLOCK_SIZE))
        self.cache.add(self.sequences[0])

    @precondition(lambda self: len(self.sequences) < 8)
    @rule(data=st.data(), token_ids=token_lists, salt=st.sampled_from(SALTS), is_computed=st.booleans())
    def add(self, data: st.DataObject, token_ids: list[int], salt: str | None, is_computed: bool) -> None:
        """Begin as another sequence does, mostly."""
        shared = self.drawn(data).token_ids if self.sequences else []
        shared = shared[: data.draw(st.integers(0, min(len(shared), 4 * BLOCK_SIZE)))]
        sequence = CachedSequence(shared + token_ids, cache_salt=salt)
        self.cache.add(sequence)
        self.sequences.append(sequence)
        if is_computed:
            self.compute(sequence)

    @precondition(lambda self: self.sequences)
    @rule(data=st.data(), token_ids=token_lists, is_cut=st.booleans())
    def go_on(self, data: st.DataObject, token_ids: list[int], is_cut: bool) -> None:
        """Append to a sequence, some of whose last tokens may be cut off before."""
        sequence = self.drawn(data)
        if is_cut or len(sequence) > BLOCK_SIZE * NUM_BLOCKS // 2:
            self.cache.truncate(sequence, data.draw(st.integers(0, len(sequence))))
        sequence.token_ids += token_ids
        if data.draw(st.booleans()):
            self.compute(sequence)

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def adopt(self, data: st.DataObject) -> None:
        sequence = self.drawn(data)
        before = sequence.num_cached
        gained = self.cache.adopt_prefix(sequence)
        assert sequence.num_cached == before + gained
        assert gained >= 0
        assert gained == 0 or sequence.num_cached < len(sequence)
        assert gained == 0 or self.has_prefix_cache

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def reserve_in_vain(self, data: st.DataObject) -> None:
        self.reserved(self.drawn(data), data.draw(st.integers(0, BLOCK_SIZE * NUM_BLOCKS)))

    @precondition(lambda self: self.sequences)
    @rule(data=st.data(), is_failed=st.sampled_from([False, False, False, True]))
    def run_pass(self, data: st.DataObject, is_failed: bool) -> None:
        """Compute stretches of some sequences, and drafts behind them of which a part is accepted."""
        entries: list[tuple[CachedSequence, int, list[int]]] = []
        for sequence in self.drawn_few(data):
            sequence.is_running = True
            if data.draw(st.booleans()):
                self.cache.adopt_prefix(sequence)
            end = len(sequence) - data.draw(st.integers(0, max(0, len(sequence) - sequence.num_cached - 1)))
            draft = data.draw(st.lists(st.integers(0, 1), max_size=4)) if end == len(sequence) else []
            if end + len(draft) <= BLOCK_SIZE * NUM_BLOCKS and self.reserved(sequence, end + len(draft)):
                entries.append((sequence, end, draft))
        self.apply_copies()
        for sequence, end, draft in entries:
            self.write(sequence, [*sequence.token_ids[:end], *draft])
        forked = [self.cache.fork(sequence) for sequence, *_ in entries if data.draw(st.integers(0, 3)) == 0]
        for sequence, end, draft in entries:
            if is_failed:
                self.discard(sequence)
                continue
            accepted = draft[: data.draw(st.integers(0, len(draft)))]
            self.cache.commit(sequence, end)
            sequence.token_ids += accepted
            self.cache.commit(sequence, end + len(accepted))
        self.sequences += forked
        for sequence, *_ in entries[data.draw(st.integers(0, len(entries))) :]:
            sequence.is_running = False

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        """Remove the last token and compute the one before it again, as at a dead end."""
        sequence = self.drawn(data)
        if sequence.token_ids:
            del sequence.token_ids[-1]
            sequence.num_cached = max(0, min(sequence.num_cached, len(sequence) - 1))

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        sequence = self.drawn(data)
        self.cache.truncate(sequence, data.draw(st.integers(0, len(sequence))))

    @precondition(lambda self: 0 < len(self.sequences) < 8)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        sequence = self.drawn(data)
        copy = self.cache.fork(sequence)
        assert (copy.token_ids, copy.num_cached) == (sequence.token_ids, sequence.num_cached)
        self.sequences.append(copy)

    @precondition(lambda self: self.sequences)
    @rule(data=st.data(), verb=st.sampled_from(["release", "release_unused", "discard", "remove", "idle"]))
    def give_back(self, data: st.DataObject, verb: str) -> None:
        sequence = self.drawn(data)
        if verb == "idle":
            sequence.is_running = False
        elif verb == "discard":
            self.apply_copies()
            self.discard(sequence)
        elif verb == "remove":
            self.cache.remove(sequence)
            self.sequences.remove(sequence)
        else:
            getattr(self.cache, verb)(sequence)

    @precondition(lambda self: self.sequences)
    @rule(data=st.data(), is_cleared=st.sampled_from([False, False, False, True]))
    def declare_public_prefix_or_clear(self, data: st.DataObject, is_cleared: bool) -> None:
        if is_cleared:
            self.cache.clear_prefix_cache()
        elif len(self.public) < 3:
            token_ids = self.drawn(data).token_ids[: data.draw(st.integers(0, 3 * BLOCK_SIZE))]
            self.public.append(token_ids)
            self.cache.declare_public_prefix(token_ids)

    @invariant()
    def books_are_right(self) -> None:
        self.cache.check()
        self.copies += self.cache.take_copies()
        if not self.has_prefix_cache:
            held = {block for sequence in self.sequences for block in sequence.block_table}
            assert self.cache.num_blocks_free == NUM_BLOCKS - len(held)

    @invariant()
    def every_cached_position_holds_its_own_content(self) -> None:
        blocks = self.blocks_after_copies()
        for sequence in self.sequences:
            for position in range(sequence.num_cached):
                content = blocks[sequence.block_table[position // BLOCK_SIZE]][position % BLOCK_SIZE]
                assert content is not None, f"position {position} was never computed"
                assert content.token_ids == tuple(sequence.token_ids[: position + 1])
                assert content.salt == sequence.cache_salt or self.is_public(content.token_ids)

    def drawn(self, data: st.DataObject) -> CachedSequence:
        return self.sequences[data.draw(st.integers(0, len(self.sequences) - 1))]

    def drawn_few(self, data: st.DataObject) -> list[CachedSequence]:
        indices = st.lists(st.integers(0, len(self.sequences) - 1), min_size=1, max_size=3, unique=True)
        return [self.sequences[index] for index in data.draw(indices)]

    def reserved(self, sequence: CachedSequence, num_tokens: int) -> bool:
        """Reserve; if it succeeds, nobody else sees the positions that may be written."""
        before = (list(sequence.token_ids), sequence.num_cached)
        if not self.cache.reserve(sequence, num_tokens):
            return False
        assert (sequence.token_ids, sequence.num_cached) == before
        assert len(sequence.block_table) * BLOCK_SIZE >= num_tokens
        written = sequence.block_table[sequence.num_cached // BLOCK_SIZE :]
        others = [block for other in self.sequences if other is not sequence for block in other.block_table]
        assert not set(written) & set(others)
        return True

    def compute(self, sequence: CachedSequence) -> None:
        """Compute all tokens in one pass."""
        self.cache.adopt_prefix(sequence)
        if len(sequence) <= BLOCK_SIZE * NUM_BLOCKS and self.reserved(sequence, len(sequence)):
            self.apply_copies()
            self.write(sequence, sequence.token_ids)
            self.cache.commit(sequence, len(sequence))

    def write(self, sequence: CachedSequence, token_ids: list[int]) -> None:
        for position in range(sequence.num_cached, len(token_ids)):
            block = sequence.block_table[position // BLOCK_SIZE]
            slots = list(self.blocks[block])
            slots[position % BLOCK_SIZE] = Content(tuple(token_ids[: position + 1]), sequence.cache_salt)
            self.blocks[block] = tuple(slots)

    def discard(self, sequence: CachedSequence) -> None:
        for block in self.cache.discard(sequence):
            self.blocks[block] = EMPTY
        assert (sequence.num_cached, sequence.block_table) == (0, [])

    def blocks_after_copies(self) -> list[Block]:
        blocks = list(self.blocks)
        for source, target in self.copies:
            blocks[target] = blocks[source]
        return blocks

    def apply_copies(self) -> None:
        self.copies += self.cache.take_copies()
        self.blocks = self.blocks_after_copies()
        self.copies = []

    def is_public(self, token_ids: tuple[int, ...]) -> bool:
        """Whether the last of `token_ids` is in a whole block of a public prefix."""
        end = -(-len(token_ids) // BLOCK_SIZE) * BLOCK_SIZE
        return any(len(prefix) >= end and (*prefix[: len(token_ids)],) == token_ids for prefix in self.public)
