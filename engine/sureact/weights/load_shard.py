"""One part of a model's weights for each of several processes, read without the other parts.

Queries, keys and values are cut by heads, gate and up by rows, the head by token ids; attention's output matrix and
down by columns, so that the processes' products add up. Embedding, norms, routers and the biases of what is added up
are whole everywhere.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from sureact.errors import ConfigError
from sureact.weights.checkpoint import Checkpoint
from sureact.weights.load_weights import takes_packed
from sureact.weights.parameter_names import map_parameters
from sureact.weights.quantization import can_quantize_int8, quantize_int8
from sureact_kernels.int8_product import pack_int8
from sureact_kernels.linear import DenseWeight, Int8Weight, LinearWeight

if TYPE_CHECKING:
    from sureact.distributed.shard import Shard
    from sureact.weights.model_config import ModelConfig
    from sureact.weights.parameter_names import ParameterSource

_BY_ROWS = ("qkv", "qkv_bias", "gate_up", "gate_up_bias")
_BY_COLUMNS = ("o", "down")
_WHOLE = slice(None)


def shard_config(config: ModelConfig, shard: Shard) -> ModelConfig:
    """Return the sizes of one part of a model; the vocabulary stays that of the whole.

    Raises:
        ConfigError: the model cannot be cut in so many parts.
    """
    num_ranks = shard.num_ranks
    sizes = {
        "query heads": config.num_q_heads,
        "key heads": config.num_kv_heads,
        "columns in its feed-forward block": config.intermediate_size,
    }
    if config.moe is not None:
        sizes["columns in an expert"] = config.moe.moe_intermediate_size
    most = min(math.gcd(*sizes.values()), -(-config.vocab_size // 32))
    allowed = [size for size in range(1, most + 1) if not any(count % size for count in sizes.values())]
    if num_ranks not in allowed:
        given = ", ".join(f"{count:,} {name}" for name, count in sizes.items())
        raise ConfigError(
            f"tensor_parallel_size is {num_ranks}; it must divide what this model has: {given}. "
            f"Allowed: {', '.join(map(str, allowed))}."
        )
    moe = config.moe and replace(config.moe, moe_intermediate_size=config.moe.moe_intermediate_size // num_ranks)
    return replace(
        config,
        num_q_heads=config.num_q_heads // num_ranks,
        num_kv_heads=config.num_kv_heads // num_ranks,
        intermediate_size=config.intermediate_size // num_ranks,
        moe=moe,
    )


def load_shard(
    folder: Path,
    config: ModelConfig,
    shard: Shard,
    *,
    dtype: torch.dtype,
    quantization: Literal["none", "int8"],
    device: torch.device,
) -> dict[str, torch.Tensor | LinearWeight]:
    """Load one part of a model's weights, named and typed as `load_weights` does.

    int8 matrices that are cut by columns get scales of their own in each part. They are rounded at every start: the
    file that `load_weights` keeps holds whole rows.

    Args:
        folder: holds the safetensors files.
        config: of the whole model.
        shard: the part.
        dtype: of the embedding and of dense matrices.
        quantization: of the linear matrices.
        device: where the weights go.

    Raises:
        CheckpointError: files are damaged or do not fit the config.
    """
    checkpoint = Checkpoint(folder)
    sources = map_parameters(config, checkpoint)
    activation_dtype = torch.float32 if quantization != "none" and takes_packed(device) else dtype
    weights: dict[str, torch.Tensor | LinearWeight] = {}
    for name, source in sources.items():
        if name == "lm_head" and config.tie_word_embeddings and quantization == "none":
            embedding = weights["embedding"]
            assert isinstance(embedding, torch.Tensor), "an embedding is a plain tensor"
            weights[name] = DenseWeight(embedding[shard.token_ids(config.vocab_size)])
            continue
        tensor = _part(checkpoint, name, source, shard)
        if source.role == "linear" and quantization == "int8" and can_quantize_int8((len(tensor), tensor.shape[-1])):
            weights[name] = _int8(tensor, device)
        elif source.role == "plain":
            weights[name] = tensor.to(device, dtype if name == "embedding" else activation_dtype)
        else:
            weights[name] = DenseWeight(tensor.to(device, dtype))
    return weights


def _part(checkpoint: Checkpoint, name: str, source: ParameterSource, shard: Shard) -> torch.Tensor:
    """Read what a process holds of a parameter, in the dtype of the file."""
    kind = name.rpartition(".")[2]
    parts: list[torch.Tensor] = []
    for tensor in source.tensors:
        rows = columns = _WHOLE
        if kind in _BY_ROWS:
            rows = shard.stretch(tensor.shape[0])
        elif kind in _BY_COLUMNS:
            columns = shard.stretch(tensor.shape[1])
        elif name == "lm_head":
            rows = shard.token_ids(tensor.shape[0])
        parts.append(checkpoint.part(tensor.name, rows, columns))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _int8(matrix: torch.Tensor, device: torch.device) -> Int8Weight:
    weight = quantize_int8(matrix)
    if device.type != "cpu":
        return Int8Weight(weight.weight.to(device), weight.scales.to(device))
    packed = pack_int8(weight.weight)
    return weight if packed is None else Int8Weight(weight.weight, weight.scales.float(), packed)
