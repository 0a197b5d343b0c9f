"""One block of a decoder-only transformer: attention and feed-forward, each behind a norm."""

from dataclasses import dataclass

import torch

from sureact.layers.attention import Attention
from sureact.layers.attention_metadata import AttentionContext
from sureact.layers.gated_mlp import GatedMlp
from sureact.layers.mixture_of_experts import MixtureOfExperts
from sureact.layers.norm import RmsNorm


@dataclass(frozen=True, slots=True)
class DecoderBlock:
    """Pre-norm block; the residual stream travels beside the normalized one."""

    input_norm: RmsNorm
    attention: Attention
    post_attention_norm: RmsNorm
    mlp: GatedMlp | MixtureOfExperts

    def __call__(
        self,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        context: AttentionContext,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the block's output, not yet added, and the residual stream; both `[num_tokens, hidden_size]`.

        `residual` is None in the first block, whose `x` is the embedding.
        """
        if residual is None:
            normed, residual = self.input_norm(x), x
        else:
            normed, residual = self.input_norm.add(x, residual)
        attended = self.attention(normed, key_cache, value_cache, context)
        normed, residual = self.post_attention_norm.add(attended, residual)
        return self.mlp(normed, invariant=context.is_invariant), residual
