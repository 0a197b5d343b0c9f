"""All weights of a model, by our names, in the form that the layers take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from sureact.errors import ConfigError
from sureact.weights.checkpoint import Checkpoint
from sureact.weights.parameter_names import map_parameters
from sureact.weights.quantized_cache import InputMoments, QuantizedWeight, merged_tensor, quantized_weights
from sureact_kernels.linear import DenseWeight, Int4Weight, Int8Weight, LinearWeight

if TYPE_CHECKING:
    from sureact.weights.model_config import ModelConfig

Quantization = Literal["none", "int8", "int4"]


def load_weights(
    folder: Path,
    config: ModelConfig,
    *,
    dtype: torch.dtype,
    quantization: Quantization,
    device: torch.device,
    input_moments: InputMoments | None = None,
) -> dict[str, torch.Tensor | LinearWeight]:
    """Load a model's weights by the names of `sureact.weights.parameter_names`.

    Matrices of linear layers become `LinearWeight` objects; routers, and those whose shape a quantization does not
    take, stay dense, in `dtype` as the embedding. Norms and biases are tensors in the dtype of activations: float32
    beside quantized matrices, `dtype` else. What needs no change is memory-mapped. A tied, dense `lm_head` shares the
    embedding's tensor; a tied, quantized one is made from it.

    Args:
        folder: holds the safetensors files.
        config: what `read_model_config` read from the same folder.
        dtype: of the embedding and of dense matrices.
        quantization: of the linear matrices; int4 only on the CPU.
        device: where the weights go.
        input_moments: what int4 is rounded for; None rounds to nearest, which loses more.

    Raises:
        CheckpointError: files are damaged or do not fit the config.
        ConfigError: int4 was asked for on another device than the CPU.
    """
    if quantization == "int4" and device.type != "cpu":
        raise ConfigError(f"quantization 'int4' runs on the CPU only; on {device} use 'none' or 'int8'.")
    checkpoint = Checkpoint(folder)
    sources = map_parameters(config, checkpoint)
    quantized = {} if quantization == "none" else quantized_weights(checkpoint, sources, quantization, input_moments)
    activation_dtype = dtype if quantization == "none" else torch.float32
    weights: dict[str, torch.Tensor | LinearWeight] = {}
    embedding = merged_tensor(checkpoint, sources["embedding"]).to(device, dtype)
    for name, source in sources.items():
        if name in quantized:
            weights[name] = _moved(quantized.pop(name), device)
        elif name == "embedding" or (name == "lm_head" and config.tie_word_embeddings):
            weights[name] = embedding if name == "embedding" else DenseWeight(embedding)
        else:
            tensor = merged_tensor(checkpoint, source)
            is_plain = source.role == "plain"
            weights[name] = tensor.to(device, activation_dtype) if is_plain else DenseWeight(tensor.to(device, dtype))
    return weights


def _moved(weight: QuantizedWeight, device: torch.device) -> QuantizedWeight:
    if device.type == "cpu":
        return weight
    if isinstance(weight, Int8Weight):
        return Int8Weight(weight.weight.to(device), weight.scales.to(device, torch.bfloat16))
    return Int4Weight(weight.nibbles.to(device), weight.scales_and_zeros.to(device), weight.group_size)
