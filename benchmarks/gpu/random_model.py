"""Models of the real shapes with random weights: their speed is that of the real ones, their text is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from benchmarks.harness import BLOCK_SIZE, device
from benchmarks.kernels.case import MODELS, Sizes

from sureact.kv_cache.storage import KVStorage
from sureact.models.causal_lm import CausalLM, LayerCache
from sureact.models.registry import build_model
from sureact.weights.model_config import ModelConfig
from sureact.weights.rope import RopeConfig
from sureact_kernels.linear import DenseWeight, LinearWeight

RMS_NORM_EPS = 1e-6
ROPE_THETA = 1e6
MAX_POSITIONS = 40_960


class Depth(NamedTuple):
    """What a model's `Sizes` do not say."""

    num_layers: int
    is_tied: bool
    """Whether the head is the embedding."""


DEPTHS = {
    "qwen3-0.6b": Depth(28, is_tied=True),
    "qwen3-1.7b": Depth(28, is_tied=True),
    "qwen3-4b": Depth(36, is_tied=True),
    "qwen3-8b": Depth(36, is_tied=False),
    "tiny": Depth(2, is_tied=True),
}


@dataclass(frozen=True, slots=True, eq=False)
class RandomModel:
    """A network and the tensors that it was built of."""

    name: str
    model: CausalLM
    tensors: dict[str, torch.Tensor | LinearWeight]
    """Under the names of `sureact.weights.parameter_names`."""

    @property
    def sizes(self) -> Sizes:
        """Of the model."""
        return MODELS[self.name]

    @property
    def dtype(self) -> torch.dtype:
        """Of activations and cache."""
        return self.model.final_norm.weight.dtype

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of the keys and values of one token."""
        return 2 * DEPTHS[self.name].num_layers * self.sizes.num_kv_heads * self.sizes.head_dim * self.dtype.itemsize

    def step_bytes(self, batch: int, context: float) -> float:
        """Bytes that one decoding step of `batch` rows must read."""
        return self.model.weight_bytes_per_token + batch * context * self.kv_bytes_per_token

    def random_ids(self, num_ids: int, seed: int) -> list[int]:
        """Draw token ids, the same for a seed on every device."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(self.sizes.vocab_size, (num_ids,), generator=generator).tolist()

    def new_cache(self, num_blocks: int) -> list[LayerCache]:
        """Return a cache full of noise: zeros would cost a GPU less power, and hide what reads a wrong slot."""
        layers = KVStorage(
            num_layers=DEPTHS[self.name].num_layers,
            num_blocks=num_blocks,
            num_kv_heads=self.sizes.num_kv_heads,
            block_size=BLOCK_SIZE,
            head_dim=self.sizes.head_dim,
            dtype=self.dtype,
            device=device(),
        ).layers
        for keys, values in layers:
            keys.normal_()
            values.normal_()
        return layers


def make_model(name: str, max_model_len: int) -> RandomModel:
    """Draw a model of `DEPTHS` on `device()`: bfloat16 on a GPU, float32 on a CPU.

    Args:
        name: whose shapes.
        max_model_len: positions that it can compute.
    """
    torch.manual_seed(0)
    sizes, depth = MODELS[name], DEPTHS[name]
    dtype = torch.float32 if device().type == "cpu" else torch.bfloat16
    embedding = _matrix(sizes.vocab_size, sizes.hidden_size, dtype)
    head = embedding if depth.is_tied else _matrix(sizes.vocab_size, sizes.hidden_size, dtype)
    tensors: dict[str, torch.Tensor | LinearWeight] = {
        "embedding": embedding,
        "final_norm": _norm(sizes.hidden_size, dtype),
        "lm_head": DenseWeight(head),
    }
    for index in range(depth.num_layers):
        tensors |= {f"layers.{index}.{part}": tensor for part, tensor in _layer(sizes, dtype).items()}
    return RandomModel(name, build_model(_config(sizes, depth, dtype), tensors, max_model_len), tensors)


def _layer(sizes: Sizes, dtype: torch.dtype) -> dict[str, torch.Tensor | LinearWeight]:
    q_size = sizes.num_q_heads * sizes.head_dim
    return {
        "input_norm": _norm(sizes.hidden_size, dtype),
        "post_attention_norm": _norm(sizes.hidden_size, dtype),
        "q_norm": _norm(sizes.head_dim, dtype),
        "k_norm": _norm(sizes.head_dim, dtype),
        "qkv": DenseWeight(_matrix(sizes.qkv_size, sizes.hidden_size, dtype)),
        "o": DenseWeight(_matrix(sizes.hidden_size, q_size, dtype)),
        "gate_up": DenseWeight(_matrix(2 * sizes.intermediate_size, sizes.hidden_size, dtype)),
        "down": DenseWeight(_matrix(sizes.hidden_size, sizes.intermediate_size, dtype)),
    }


def _config(sizes: Sizes, depth: Depth, dtype: torch.dtype) -> ModelConfig:
    name: Literal["bfloat16", "float32"] = "bfloat16" if dtype == torch.bfloat16 else "float32"
    return ModelConfig(
        family="qwen3",
        hidden_size=sizes.hidden_size,
        num_layers=depth.num_layers,
        num_q_heads=sizes.num_q_heads,
        num_kv_heads=sizes.num_kv_heads,
        head_dim=sizes.head_dim,
        intermediate_size=sizes.intermediate_size,
        vocab_size=sizes.vocab_size,
        rms_norm_eps=RMS_NORM_EPS,
        rope=RopeConfig(theta=ROPE_THETA),
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=depth.is_tied,
        qkv_bias=False,
        o_bias=False,
        mlp_bias=False,
        qk_norm=True,
        moe=None,
        dtype=name,
        eos_token_ids=(),
    )


def _matrix(out_features: int, in_features: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(out_features, in_features, dtype=dtype, device=device()).normal_(std=in_features**-0.5)


def _norm(size: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(size, dtype=dtype, device=device()).normal_(mean=1, std=0.1)
