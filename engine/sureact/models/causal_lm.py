"""The interface of a language model, and what all families share: embedding, blocks, final norm, head."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from sureact.layers.attention_metadata import PassMetadata
from sureact.layers.linear import Linear
from sureact.layers.norm import RmsNorm
from sureact.layers.rotary import RotaryTable
from sureact.models.decoder_block import DecoderBlock
from sureact.weights.model_config import ModelConfig, MoeConfig
from sureact.weights.rope import rotary_frequencies
from sureact_kernels.embedding import embedding
from sureact_kernels.linear import LinearWeight
from sureact_kernels.masked_head import masked_head

LayerCache = tuple[torch.Tensor, torch.Tensor]
"""Keys and values of one layer, each `[num_blocks, block_size, num_kv_heads, head_dim]`."""


class Weights:
    """The loaded tensors of a model by name, typed by what they are used for."""

    def __init__(self, tensors: dict[str, torch.Tensor | LinearWeight]) -> None:
        self._tensors = tensors

    def tensor(self, name: str) -> torch.Tensor:
        """A plain tensor: embedding, norm or bias."""
        found = self._tensors[name]
        assert isinstance(found, torch.Tensor), f"{name} is a matrix"
        return found

    def linear(self, name: str) -> Linear:
        """A matrix, with its bias if `name + "_bias"` was loaded."""
        found = self._tensors[name]
        assert not isinstance(found, torch.Tensor), f"{name} is a plain tensor"
        bias = self._tensors.get(f"{name}_bias")
        assert bias is None or isinstance(bias, torch.Tensor), f"{name}_bias is a matrix"
        return Linear(found, bias)

    def matrix_bytes_per_token(self, moe: MoeConfig | None) -> int:
        """Bytes of the matrices that one token is multiplied with; of the experts, as many as it visits."""
        dense = experts = 0
        for name, tensor in self._tensors.items():
            if isinstance(tensor, torch.Tensor):
                continue
            if ".experts." in name:
                experts += tensor.num_bytes
            else:
                dense += tensor.num_bytes
        return dense + (experts * moe.num_experts_per_token // moe.num_experts if moe else 0)


class CausalLM(ABC):
    """A decoder-only language model over a paged cache. A family says how its blocks are built."""

    def __init__(self, config: ModelConfig, weights: Weights, max_model_len: int) -> None:
        """Assemble the network.

        Args:
            config: sizes and settings.
            weights: tensors under the names of `sureact.weights.parameter_names`.
            max_model_len: positions that rotary angles are tabulated for.
        """
        self.config = config
        self.weight_bytes_per_token = weights.matrix_bytes_per_token(config.moe)
        self.embedding = weights.tensor("embedding")
        self.blocks = [self.build_block(f"layers.{i}", i, weights) for i in range(config.num_layers)]
        self.final_norm = RmsNorm(weights.tensor("final_norm"), config.rms_norm_eps)
        self.lm_head = weights.linear("lm_head")
        inv_freq, scaling = rotary_frequencies(config.rope, config.head_dim)
        self.rotary = RotaryTable(inv_freq.to(self.embedding.device), scaling, max_model_len)

    @abstractmethod
    def build_block(self, prefix: str, index: int, weights: Weights) -> DecoderBlock:
        """Build block `index`, whose weights are named `prefix` + `.input_norm` and so on."""

    def forward(self, token_ids: torch.Tensor, metadata: PassMetadata, caches: Sequence[LayerCache]) -> torch.Tensor:
        """Run the blocks over `token_ids` `[num_tokens]`, int64; fill `caches`; return `[num_tokens, hidden_size]`."""
        x, residual = embedding(token_ids, self.embedding).to(self.final_norm.weight.dtype), None
        config = self.config
        context = metadata.context(
            self.rotary, block_size=caches[0][0].shape[1], group=config.num_q_heads // config.num_kv_heads
        )
        for block, (key_cache, value_cache) in zip(self.blocks, caches, strict=True):
            x, residual = block(x, residual, key_cache, value_cache, context)
        assert residual is not None, "a model has at least one block"
        return self.final_norm.add(x, residual)[0]

    def logits(self, hidden: torch.Tensor, needed: torch.Tensor | None = None) -> torch.Tensor:
        """Map hidden states `[num_rows, hidden_size]` to logits `[num_rows, vocab_size]`, float32.

        Args:
            hidden: from `forward`.
            needed: bitmask `[num_rows, words]` of the ids whose logits are needed, on the host or beside `hidden`; the
                others may be -inf. While a CUDA graph is captured it must lie beside `hidden`.
        """
        if needed is None or self.lm_head.bias is not None:
            return self.lm_head(hidden, invariant=True).float()
        return masked_head(hidden, self.lm_head.weight, needed)
