"""Llama and what is built like it, SmolLM2 among them."""

from sureact.layers.attention import Attention
from sureact.layers.gated_mlp import GatedMlp
from sureact.layers.norm import RmsNorm
from sureact.models.causal_lm import CausalLM, Weights
from sureact.models.decoder_block import DecoderBlock


class Llama(CausalLM):
    """No norm on heads; biases only where the checkpoint has them."""

    def build_block(self, prefix: str, index: int, weights: Weights) -> DecoderBlock:
        """Build block `index`."""
        config = self.config
        return DecoderBlock(
            input_norm=RmsNorm(weights.tensor(f"{prefix}.input_norm"), config.rms_norm_eps),
            attention=Attention(
                weights.linear(f"{prefix}.qkv"), weights.linear(f"{prefix}.o"), head_dim=config.head_dim
            ),
            post_attention_norm=RmsNorm(weights.tensor(f"{prefix}.post_attention_norm"), config.rms_norm_eps),
            mlp=GatedMlp(weights.linear(f"{prefix}.gate_up"), weights.linear(f"{prefix}.down")),
        )
