"""All weights of a model, by our names, in the form that the layers take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from sureact.errors import CheckpointError
from sureact.weights.checkpoint import Checkpoint
from sureact.weights.parameter_names import map_parameters
from sureact.weights.quantization import quantize_fp8
from sureact.weights.quantized_cache import InputMoments, QuantizedWeight, merged_tensor, quantized_weights
from sureact_kernels.linear import DenseWeight, Fp8Weight, Int8Weight, LinearWeight

if TYPE_CHECKING:
    from sureact.weights.model_config import ModelConfig

Quantization = Literal["none", "int8", "int4", "fp8"]


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
    beside quantized matrices on the CPU, `dtype` else. What needs no change is memory-mapped. A tied, dense `lm_head`
    shares the embedding's tensor; a tied, quantized one is made from it.

    Args:
        folder: holds the safetensors files.
        config: what `read_model_config` read from the same folder.
        dtype: of the embedding and of dense matrices.
        quantization: of the linear matrices; fp8 is made on `device` at every start.
        device: where the weights go.
        input_moments: what int4 is rounded for; None rounds to nearest, which loses more.

    Raises:
        CheckpointError: files are damaged or do not fit the config.
    """
    checkpoint = Checkpoint(folder)
    sources = map_parameters(config, checkpoint)
    is_packed = takes_packed(device)
    quantized: dict[str, QuantizedWeight] = {}
    if quantization in ("int8", "int4"):
        quantized = quantized_weights(checkpoint, sources, quantization, input_moments, is_packed=is_packed)
    activation_dtype = torch.float32 if is_packed and quantization != "none" else dtype
    weights: dict[str, torch.Tensor | LinearWeight] = {}
    embedding = merged_tensor(checkpoint, sources["embedding"]).to(device, dtype)
    for name, source in sources.items():
        if name in quantized:
            weights[name] = _moved(quantized.pop(name), device)
        elif quantization == "fp8" and source.role == "linear":
            weights[name] = _fp8(name, merged_tensor(checkpoint, source).to(device))
        elif name == "embedding" or (name == "lm_head" and config.tie_word_embeddings):
            weights[name] = embedding if name == "embedding" else DenseWeight(embedding)
        else:
            tensor = merged_tensor(checkpoint, source)
            is_plain = source.role == "plain"
            weights[name] = tensor.to(device, activation_dtype) if is_plain else DenseWeight(tensor.to(device, dtype))
    return weights


def takes_packed(device: torch.device) -> bool:
    """Tell whether a device's products take int8 and int4 matrices packed, beside activations in float32."""
    return device.type == "cpu"


def _fp8(name: str, matrix: torch.Tensor) -> Fp8Weight:
    weight = quantize_fp8(matrix)
    if not weight.scales.isfinite().all():
        raise CheckpointError(f"The weights of {name} hold NaN or infinite values; fetch the model again.")
    return weight


def _moved(weight: QuantizedWeight, device: torch.device) -> QuantizedWeight:
    if device.type == "cpu":
        return weight
    if isinstance(weight, Int8Weight):
        return replace(weight, weight=weight.weight.to(device), scales=weight.scales.to(device))
    return replace(weight, nibbles=weight.nibbles.to(device), scales_and_zeros=weight.scales_and_zeros.to(device))
