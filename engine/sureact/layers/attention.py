"""Self-attention over the paged cache."""

import torch

from sureact.layers.attention_metadata import AttentionContext
from sureact.layers.linear import Linear
from sureact_kernels.paged_attention import paged_attention
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
        self, x: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, context: AttentionContext
    ) -> torch.Tensor:
        """Map `[num_tokens, hidden_size]` to the same shape, writing this layer's keys and values.

        Args:
            x: normalized hidden states.
            key_cache: `[num_blocks, block_size, num_kv_heads, head_dim]`, this layer's.
            value_cache: like `key_cache`.
            context: where the tokens stand.
        """
        qkv = self.qkv(x, invariant=context.is_invariant)
        q = qk_norm_rope_store(
            qkv, context.cos, context.sin, key_cache, value_cache, context.slot_mapping, self.head_norm
        )
        out = paged_attention(q, key_cache, value_cache, context.plan, self.scale)
        return self.o(out.flatten(1), invariant=context.is_invariant)
