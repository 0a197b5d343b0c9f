"""Finds blocks by the tokens they hold and all tokens before them. Knows nothing of who holds a block."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from sureact.kv_cache.cached_sequence import CachedSequence

# A popular prefix may have a child for every request that went on from it. The newest are looked at; each costs less
# than a microsecond, a token that is computed again a millisecond on a CPU.
_MAX_COMPARED = 256


@dataclass(slots=True, eq=False, weakref_slot=True)
class Prefix:
    """Whole blocks of tokens from the start of a sequence: those of `parent`, then one block more.

    Equal prefixes are the same object as long as anything needs them, so a prefix is known by its parent and its own
    block: a chain of hashes whose links are compared token by token, which no collision can deceive.
    """

    parent: "Prefix | None" = field(repr=False)
    label: tuple[int, ...]
    """The tokens of the last block; none where those of a salt branch off."""
    salt: str | None = None
    """Of those that branch off here; None after a block."""
    block: int | None = None
    """The block where the keys and values of the last block's tokens are found, while it is published."""
    children: dict["Prefix", None] = field(default_factory=dict["Prefix", None], repr=False)
    """Published prefixes of one block more, the newest last."""
    tails: dict["CachedSequence", None] = field(default_factory=dict["CachedSequence", None], repr=False)
    """Sequences that begin their next block here."""


_Edge = tuple[Prefix, tuple[int, ...], str | None]
"""A parent and what leads on from it: the tokens of a block, or a salt."""


class PrefixIndex:
    """The published blocks, and the begun blocks of live sequences."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.root = Prefix(None, ())
        self._block_size = block_size
        self._prefixes: WeakValueDictionary[_Edge, Prefix] = WeakValueDictionary()
        self._published: list[Prefix | None] = [None] * num_blocks
        self._public = {self.root}

    def declare_public(self, token_ids: Sequence[int]) -> None:
        """Let sequences of any salt share the whole blocks of `token_ids`."""
        prefix = self.root
        for start in range(0, len(token_ids) - self._block_size + 1, self._block_size):
            prefix = self._intern(prefix, tuple(token_ids[start : start + self._block_size]))
            self._public.add(prefix)

    def extended(self, prefix: Prefix, token_ids: tuple[int, ...], salt: str | None) -> Prefix:
        """Return the prefix of one block more. The salt enters where a sequence leaves the public prefixes."""
        if salt is not None and prefix in self._public:
            public = self._prefixes.get((prefix, token_ids, None))
            if public is not None and public in self._public:
                return public
        return self._intern(self._branch(prefix, salt), token_ids)

    def is_published(self, block: int) -> bool:
        """Whether the block can be found."""
        return self._published[block] is not None

    def publish(self, prefix: Prefix, block: int) -> None:
        """Let `block` be found as the last of `prefix`, unless another is."""
        if prefix.block is not None:
            return
        assert prefix.parent is not None, "the root has no block"
        assert self._published[block] is None, f"block {block} was written while it could be found"
        prefix.block = block
        prefix.parent.children[prefix] = None
        self._published[block] = prefix

    def unpublish(self, block: int) -> None:
        """Let `block` be found no more."""
        prefix = self._published[block]
        if prefix is None:
            return
        assert prefix.parent is not None, "the root has no block"
        prefix.block = None
        del prefix.parent.children[prefix]
        self._published[block] = None

    def move_tail(self, sequence: "CachedSequence") -> None:
        """Let the begun block of `sequence` be found after its last full one."""
        last = sequence.prefixes[-1] if sequence.prefixes else self.root
        branch = self._branch(last, sequence.cache_salt)
        if branch is not sequence.branch:
            self.drop_tail(sequence)
            branch.tails[sequence] = None
            sequence.branch = branch

    def drop_tail(self, sequence: "CachedSequence") -> None:
        """Let the begun block of `sequence` be found no more."""
        if sequence.branch is not None:
            del sequence.branch.tails[sequence]
            sequence.branch = None

    def longest_match(self, prefix: Prefix, token_ids: Sequence[int], salt: str | None) -> tuple[int, int]:
        """Find the block after `prefix` that begins with most of `token_ids`.

        Returns:
            The block and the number of tokens in common; `(-1, 0)` if there is none.
        """
        branch = self._branch(prefix, salt)
        best = (-1, 0)
        for child in islice(reversed(branch.children), _MAX_COMPARED):
            if child.block is not None and (common := _num_common(child.label, token_ids)) > best[1]:
                best = (child.block, common)
        for sequence in islice(reversed(branch.tails), _MAX_COMPARED):
            num_blocks = len(sequence.prefixes)
            computed = sequence.token_ids[num_blocks * self._block_size : sequence.num_cached]
            if (common := _num_common(computed, token_ids)) > best[1]:
                best = (sequence.block_table[num_blocks], common)
        return best

    def check(self, sequences: Collection["CachedSequence"]) -> None:
        """Assert that prefixes, blocks and `sequences`, which are all there are, agree."""
        for block, prefix in enumerate(self._published):
            if prefix is not None:
                assert prefix.block == block, f"block {block} is published under a prefix that names another"
                assert prefix.parent is not None, f"block {block} is published under the root"
                assert prefix in prefix.parent.children, f"block {block} is published but its parent does not know it"
        for prefix in [self.root, *self._prefixes.values()]:
            for child in prefix.children:
                assert child.parent is prefix, "a prefix has another's child"
                assert child.block is not None, "a child is not published"
                assert self._published[child.block] is child, "a child's block is another's"
            for sequence in prefix.tails:
                assert sequence in sequences, "a forgotten sequence's begun block can be found"
                assert sequence.branch is prefix, "a begun block is found after two prefixes"
        for sequence in sequences:
            self._check_sequence(sequence)

    def _check_sequence(self, sequence: "CachedSequence") -> None:
        size = self._block_size
        num_blocks = min(len(sequence.prefixes), sequence.num_cached // size)
        for index, prefix in enumerate(sequence.prefixes[:num_blocks]):
            tokens = tuple(sequence.token_ids[index * size : (index + 1) * size])
            assert prefix.label == tokens, "a prefix has other tokens than its sequence"
            published = self._published[sequence.block_table[index]]
            assert published is None or published is prefix, "a block is published with other tokens than it holds"
        if sequence.branch is not None:
            last = sequence.prefixes[-1] if sequence.prefixes else self.root
            assert sequence.branch is self._branch(last, sequence.cache_salt), "a begun block is found elsewhere"
            assert sequence in sequence.branch.tails, "a begun block cannot be found"

    def _branch(self, prefix: Prefix, salt: str | None) -> Prefix:
        return self._intern(prefix, (), salt) if salt is not None and prefix in self._public else prefix

    def _intern(self, parent: Prefix, label: tuple[int, ...], salt: str | None = None) -> Prefix:
        prefix = self._prefixes.get((parent, label, salt))
        if prefix is None:
            prefix = self._prefixes[parent, label, salt] = Prefix(parent, label, salt)
        return prefix


def _num_common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many elements are equal from the start on."""
    num_common = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        num_common += 1
    return num_common
