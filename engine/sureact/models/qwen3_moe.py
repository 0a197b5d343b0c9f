"""Qwen3 with a mixture of experts in some or all blocks."""

from sureact.layers.gated_mlp import GatedMlp
from sureact.layers.mixture_of_experts import MixtureOfExperts
from sureact.models.causal_lm import Weights
from sureact.models.qwen3 import Qwen3


class Qwen3Moe(Qwen3):
    """Qwen3's attention; experts where the config says so, a dense block elsewhere."""

    def build_mlp(self, prefix: str, index: int, weights: Weights) -> GatedMlp | MixtureOfExperts:
        """Build the feed-forward part of block `index`."""
        moe = self.config.moe
        if moe is None or index not in moe.sparse_layer_indices:
            return super().build_mlp(prefix, index, weights)
        experts = [
            GatedMlp(weights.linear(f"{prefix}.experts.{e}.gate_up"), weights.linear(f"{prefix}.experts.{e}.down"))
            for e in range(moe.num_experts)
        ]
        return MixtureOfExperts(
            weights.linear(f"{prefix}.router"),
            experts,
            num_experts_per_token=moe.num_experts_per_token,
            norm_topk_prob=moe.norm_topk_prob,
        )
