"""Which part of a model one of several processes holds."""

from typing import NamedTuple

WORD_BITS = 32
"""Ids in a word of a token bitmask."""


class Shard(NamedTuple):
    """One of `num_ranks` equal parts."""

    rank: int
    num_ranks: int

    def stretch(self, size: int) -> slice:
        """Return this part of `size` rows, columns or heads, which `num_ranks` divides."""
        share, rest = divmod(size, self.num_ranks)
        assert not rest, f"{self.num_ranks} does not divide {size}"
        return slice(self.rank * share, (self.rank + 1) * share)

    def token_ids(self, vocab_size: int) -> slice:
        """Return the token ids whose logits this part computes: whole words of a bitmask, so parts may differ by one.

        `vocab_size` has at least as many words as there are parts.
        """
        words = self.words(vocab_size)
        return slice(words.start * WORD_BITS, min(words.stop * WORD_BITS, vocab_size))

    def words(self, vocab_size: int) -> slice:
        """Return the words of a bitmask over `vocab_size` ids that stand for `token_ids`."""
        num_words = -(-vocab_size // WORD_BITS)
        return slice(self.rank * num_words // self.num_ranks, (self.rank + 1) * num_words // self.num_ranks)

    def all(self) -> "list[Shard]":
        """Return every part, by rank."""
        return [Shard(rank, self.num_ranks) for rank in range(self.num_ranks)]
