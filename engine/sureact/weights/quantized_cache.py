"""Quantized matrices kept beside the model, so that only the first start quantizes."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from sureact.errors import CheckpointError, SureactError
from sureact.weights.error_feedback import quantize_int4_for_inputs
from sureact.weights.quantization import (
    INT4_GROUP_SIZE,
    can_quantize_int4,
    can_quantize_int8,
    quantize_int4,
    quantize_int8,
)
from sureact_kernels.int4_product import pack_int4
from sureact_kernels.int8_product import pack_int8
from sureact_kernels.linear import Int4Weight, Int8Weight

if TYPE_CHECKING:
    from sureact.weights.checkpoint import Checkpoint
    from sureact.weights.parameter_names import ParameterSource

_LAYOUT_VERSIONS = {"int8": "v3", "int4": "v4"}
"""Part of the file name; changes when the quantization or the layout of the file does."""

_ALIGNMENT_BYTES = 64
"""Where torch's own tensors begin, and what its vectorized products rely on."""

_logger = logging.getLogger(__name__)

QuantizedWeight = Int8Weight | Int4Weight

InputMoments = Callable[["Checkpoint", Mapping[str, "ParameterSource"]], Iterator[tuple[str, torch.Tensor]]]
"""Yields names of linear matrices and the second moments of their inputs, as `quantize_int4_for_inputs` takes them."""


def merged_tensor(checkpoint: Checkpoint, source: ParameterSource) -> torch.Tensor:
    """Return the tensor of a parameter in the dtype of the file: a memory-mapped view, or joined and new."""
    tensors = [checkpoint.tensor(tensor.name) for tensor in source.tensors]
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


def quantized_weights(
    checkpoint: Checkpoint,
    sources: Mapping[str, ParameterSource],
    quantization: Literal["int8", "int4"],
    input_moments: InputMoments | None = None,
    *,
    is_packed: bool = True,
) -> dict[str, QuantizedWeight]:
    """Return the quantized form, by our name, of every linear matrix whose shape allows it.

    They come memory-mapped from `quantized/` in the model's folder. When that file is absent or older than the weights
    they are quantized, one at a time, and the file is written; where it cannot be, a log line says so.

    Args:
        checkpoint: holds the weights.
        sources: of the model's parameters.
        quantization: the form.
        input_moments: what int4 is rounded for; None rounds to nearest, which loses more.
        is_packed: whether to lay them out for the products in C++, too, which are for CPUs.

    Raises:
        CheckpointError: a weight is NaN or infinite.
    """
    form = "int4-nearest" if quantization == "int4" and input_moments is None else quantization
    path = checkpoint.folder / "quantized" / f"{form}-{_LAYOUT_VERSIONS[quantization]}.safetensors"
    metadata = {"fingerprint": _fingerprint(checkpoint)}
    cached = _read(path, metadata)
    if cached is not None:
        return _unflatten(cached, quantization, path) if is_packed else _unpacked(cached, quantization)
    flat = _int8(checkpoint, sources) if quantization == "int8" else _int4(checkpoint, sources, input_moments)
    _write(path, flat, metadata)
    # Reading it back swaps the copies in memory for pages of the file.
    cached = _read(path, metadata)
    if not is_packed:
        return _unpacked(flat if cached is None else cached, quantization)
    return _unflatten(flat, quantization) if cached is None else _unflatten(cached, quantization, path)


def _int8(checkpoint: Checkpoint, sources: Mapping[str, ParameterSource]) -> dict[str, torch.Tensor]:
    flat: dict[str, torch.Tensor] = {}
    for name, source in sources.items():
        if source.role == "linear" and can_quantize_int8(source.shape):
            flat |= _flatten(name, quantize_int8(merged_tensor(checkpoint, source)))
    return flat


def _int4(
    checkpoint: Checkpoint, sources: Mapping[str, ParameterSource], input_moments: InputMoments | None
) -> dict[str, torch.Tensor]:
    """Round to int4, for the inputs that are known and to nearest for the others."""
    names = {name for name, source in sources.items() if source.role == "linear" and can_quantize_int4(source.shape)}
    flat: dict[str, torch.Tensor] = {}
    for name, moments in _as_far_as_possible(input_moments(checkpoint, sources)) if input_moments else ():
        if name in names:
            weight = quantize_int4_for_inputs(merged_tensor(checkpoint, sources[name]), moments)
            flat |= _flatten(name, weight) if weight is not None else {}
    for name in sorted(names):
        if f"{name}.values" not in flat:
            flat |= _flatten(name, quantize_int4(merged_tensor(checkpoint, sources[name])))
    return flat


def _as_far_as_possible(moments: Iterator[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what can be had: a model that cannot run the text can still be rounded to nearest."""
    try:
        yield from moments
    except (RuntimeError, ValueError, SureactError) as error:
        _logger.warning("int4 weights are rounded to nearest, which loses more than it has to: %s", error)


def _fingerprint(checkpoint: Checkpoint) -> str:
    """Describe all that the file depends on."""
    return json.dumps([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in checkpoint.files])


def _flatten(name: str, weight: QuantizedWeight) -> dict[str, torch.Tensor]:
    scales = weight.scales if isinstance(weight, Int8Weight) else weight.scales_and_zeros
    if not scales.isfinite().all():
        raise CheckpointError(f"The weights of {name} hold NaN or infinite values; fetch the model again.")
    values = weight.weight if isinstance(weight, Int8Weight) else weight.nibbles
    return {f"{name}.values": values, f"{name}.scales": scales}


def _unflatten(
    flat: Mapping[str, torch.Tensor], quantization: Literal["int8", "int4"], path: Path | None = None
) -> dict[str, QuantizedWeight]:
    """Make weights of tensors, which come from the file at `path` or, with None, have memory of their own."""

    def read(name: str) -> torch.Tensor:
        return flat[name] if path is None else _remapped(path, name)

    weights: dict[str, QuantizedWeight] = {}
    for name, (values, scales) in _pairs(flat).items():
        if quantization == "int4":
            packed_int4 = pack_int4(read(f"{name}.values"), read(f"{name}.scales"), INT4_GROUP_SIZE)
            weights[name] = Int4Weight(values, scales, INT4_GROUP_SIZE, packed_int4)
        else:
            packed = pack_int8(read(f"{name}.values"))
            weights[name] = Int8Weight(values, scales if packed is None else scales.float(), packed)
    return weights


def _unpacked(flat: Mapping[str, torch.Tensor], quantization: Literal["int8", "int4"]) -> dict[str, QuantizedWeight]:
    pairs = _pairs(flat)
    if quantization == "int8":
        return {name: Int8Weight(*pair) for name, pair in pairs.items()}
    return {name: Int4Weight(*pair, INT4_GROUP_SIZE) for name, pair in pairs.items()}


def _pairs(flat: Mapping[str, torch.Tensor]) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Return values and scales by the name of their matrix."""
    names = [key.removesuffix(".values") for key in flat if key.endswith(".values")]
    return {name: (flat[f"{name}.values"], flat[f"{name}.scales"]) for name in names}


def _remapped(path: Path, name: str) -> torch.Tensor:
    """Return a tensor in a mapping of its own, whose pages go with it: read through one that stays, they would too."""
    from safetensors import safe_open

    with safe_open(path, framework="pt", device="cpu") as file:
        return file.get_tensor(name)


def _read(path: Path, metadata: dict[str, str]) -> dict[str, torch.Tensor] | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            if not metadata.items() <= (file.metadata() or {}).items():
                return None
            return {name: _aligned(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118  it has no __iter__
    except (SafetensorError, OSError):
        # Absent or damaged: both are mended by quantizing again.
        return None


def _aligned(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor that begins where torch's products must not read: an unaligned int8 matrix is a segmentation fault.

    The format aligns tensors to 8 bytes only. `_write` puts the first on a boundary; odd shapes move others off it.
    """
    return tensor if tensor.data_ptr() % _ALIGNMENT_BYTES == 0 else tensor.clone()


def _header_bytes(path: Path) -> int:
    """Return where the first tensor of a safetensors file begins: behind the header and the 8 bytes of its length."""
    with path.open("rb") as file:
        return 8 + int.from_bytes(file.read(8), "little")


def _write(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        path.parent.mkdir(exist_ok=True)
        save_file(tensors, unfinished, metadata | {"padding": ""})
        padding_bytes = -_header_bytes(unfinished) % _ALIGNMENT_BYTES
        if padding_bytes:
            save_file(tensors, unfinished, metadata | {"padding": " " * padding_bytes})
        unfinished.replace(path)
        form = path.stem.rpartition("-")[0]
        for outdated in set(path.parent.glob(f"{form}-v*.safetensors")) - {path}:
            outdated.unlink()
    except (SafetensorError, OSError) as error:
        _logger.warning(
            "Quantized weights could not be kept in %s (%s); each start quantizes anew.", path.parent, error
        )
    finally:
        with suppress(OSError):
            unfinished.unlink()
