"""Qwen3, dense."""

from sureact.layers.attention import Attention
from sureact.layers.gated_mlp import GatedMlp
from sureact.layers.mixture_of_experts import MixtureOfExperts
from sureact.layers.norm import RmsNorm
from sureact.models.causal_lm import CausalLM, Weights
from sureact.models.decoder_block import DecoderBlock
from sureact_kernels.qk_norm_rope_store import HeadNorm


class Qwen3(CausalLM):
    """Normalizes each query and key head before rotation; `head_dim` is a setting of its own."""

    def build_block(self, prefix: str, index: int, weights: Weights) -> DecoderBlock:
        """Build block `index`."""
        config = self.config
        head_norm = HeadNorm(
            weights.tensor(f"{prefix}.q_norm"), weights.tensor(f"{prefix}.k_norm"), config.rms_norm_eps
        )
        return DecoderBlock(
            input_norm=RmsNorm(weights.tensor(f"{prefix}.input_norm"), config.rms_norm_eps),
            attention=Attention(
                weights.linear(f"{prefix}.qkv"),
                weights.linear(f"{prefix}.o"),
                head_dim=config.head_dim,
                head_norm=head_norm,
            ),
            post_attention_norm=RmsNorm(weights.tensor(f"{prefix}.post_attention_norm"), config.rms_norm_eps),
            mlp=self.build_mlp(prefix, index, weights),
        )

    def build_mlp(self, prefix: str, index: int, weights: Weights) -> GatedMlp | MixtureOfExperts:
        """Build the feed-forward part of block `index`."""
        del index  # the same in every block of a dense model
        return GatedMlp(weights.linear(f"{prefix}.gate_up"), weights.linear(f"{prefix}.down"))
