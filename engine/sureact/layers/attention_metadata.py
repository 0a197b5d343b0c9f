"""Where the tokens of one forward pass stand and where their keys and values go."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionMetadata:
    """Positions, slots and tables of the tokens of one forward pass, sequence after sequence."""

    positions: torch.Tensor
    """`[num_tokens]`, int64: index of each token in its sequence."""
    slot_mapping: torch.Tensor
    """`[num_tokens]`, int64: cache slot of each token, block * block_size + row."""
    block_tables: torch.Tensor
    """`[num_seqs, max_blocks]`, int64; rows padded with any valid block."""
    context_lens: tuple[int, ...]
    """Tokens per sequence after this pass."""
    query_lens: tuple[int, ...]
    """Tokens per sequence in this pass; they add up to num_tokens."""
    is_invariant: bool
    """Whether each token's result must be independent of the other tokens in the pass."""

    @property
    def is_decode(self) -> bool:
        """Whether every sequence has one new token."""
        return len(self.query_lens) == self.positions.shape[0]
