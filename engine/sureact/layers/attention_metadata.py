"""Where the tokens of one forward pass stand and where their keys and values go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from sureact_kernels.attention_plan import AttentionPlan, plan_attention

if TYPE_CHECKING:
    from sureact.layers.rotary import RotaryTable


class PassMetadata(Protocol):
    """Where the tokens of a pass stand, however that is known."""

    def context(self, rotary: RotaryTable, *, block_size: int, group: int) -> AttentionContext:
        """Prepare what all layers share, see `AttentionMetadata.context`."""
        ...


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

    def context(self, rotary: RotaryTable, *, block_size: int, group: int) -> AttentionContext:
        """Prepare what all layers share.

        Args:
            rotary: the model's angles.
            block_size: tokens per block of the cache.
            group: query heads per key head.
        """
        cos, sin = rotary.at(self.positions)
        plan = plan_attention(self.block_tables, self.query_lens, self.context_lens, block_size=block_size, group=group)
        return AttentionContext(cos, sin, self.slot_mapping, plan, self.is_invariant)


@dataclass(frozen=True, slots=True, eq=False)
class AttentionContext:
    """What the layers of one pass share."""

    cos: torch.Tensor
    """`[num_tokens, head_dim]`, float32, from `RotaryTable.at`."""
    sin: torch.Tensor
    slot_mapping: torch.Tensor
    plan: AttentionPlan
    is_invariant: bool
