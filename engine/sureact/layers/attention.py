"""Self-attention over the paged cache."""

import torch

from sureact.layers.attention_metadata import AttentionMetadata
from sureact.layers.linear import Linear
from sureact_kernels.paged_attention import paged_attention
from sureact_kernels.prefill_attention import prefill_attention
from sureact_kernels.qk_norm_rope_store import HeadNorm, qk_norm_rope_store


class Attention:
    """Grouped-query attention with rotary positions; queries, keys and values come from one product."""

    __slots__ = ("head_norm", "o", "qkv", "scale")

    def __init__(self, qkv: Linear, o: Linear, *, head_dim: int, head_norm: HeadNorm | None = None) -> None:
        self.qkv = qkv
        self.o = o
        self.scale = head_dim**-0.5
        self.head_norm = head_norm

    def __call__(
        self,
        x: torch.Tensor,
        rotary: tuple[torch.Tensor, torch.Tensor],
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        """Map `[num_tokens, hidden_size]` to the same shape, writing this layer's keys and values.

        Args:
            x: normalized hidden states.
            rotary: cosines and sines at the tokens' positions, from `RotaryTable.at`.
            key_cache: `[num_blocks, block_size, num_kv_heads, head_dim]`, this layer's.
            value_cache: like `key_cache`.
            metadata: where the tokens stand.
        """
        qkv = self.qkv(x, invariant=metadata.is_invariant)
        q = qk_norm_rope_store(qkv, *rotary, key_cache, value_cache, metadata.slot_mapping, self.head_norm)
        if metadata.is_decode:
            out = paged_attention(q, key_cache, value_cache, metadata.block_tables, metadata.context_lens, self.scale)
        else:
            out = prefill_attention(
                q,
                key_cache,
                value_cache,
                metadata.block_tables,
                metadata.query_lens,
                metadata.context_lens,
                self.scale,
                invariant=metadata.is_invariant,
            )
        return self.o(out.flatten(1), invariant=metadata.is_invariant)
