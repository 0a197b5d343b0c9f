"""The product of float rows and an int8 matrix, in exact integer arithmetic between two roundings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch

from sureact_kernels.cpu import int8_product as compiled
from sureact_kernels.cpu.library import library

MAX_IN_FEATURES = (2**31 - 1) // (255 * 128)
"""Columns whose products surely add up within 32 bits: each is at most 255 * 128 before the zero point is taken off."""

_LEVELS = 32639
"""Steps on each side of zero: 127 * 256 + 127, so that both bytes stay within 1 to 255."""
_ZERO_POINT = 128
_ZERO_STEP = np.float32(_ZERO_POINT * 257 + 0.5)
"""Zero as two bytes with their zero points, and half a step: what follows only truncates."""
_LEAST_AMAX = np.float32(1e-30)
"""Below, a row counts as zero: the inverse of its step would overflow."""
_PROBED_ROWS = (1, 2, 3, 8, 40)


class QuantizedRows(NamedTuple):
    """Rows in steps of their own: `x[t, k] ~ steps[t] * (256 * (planes[t, k] - 128) + planes[M + t, k] - 128)`."""

    planes: torch.Tensor
    """`[2 * num_rows, in_features]`, uint8: the high bytes of all rows, then the low bytes."""
    steps: torch.Tensor
    """`[num_rows, 1]`, float32; NaN where a row holds NaN or infinity."""


def quantize_rows(x: torch.Tensor) -> QuantizedRows:
    """Write each row as 16-bit integers of its own scale, split into two bytes.

        steps[t] = max_k |x[t, k]| / 32639
        v[t, k]  = floor(x[t, k] / steps[t] + 0.5)

    Every element is computed by the same correctly rounded operations wherever it stands.

    Args:
        x: `[num_rows, in_features]`, float32, on the CPU.
    """
    rows = x.numpy()  # whose operations cost half of torch's for few rows, and on one thread no more for many
    with np.errstate(invalid="ignore"):  # infinity times its inverse; the steps say so
        amax = np.maximum.reduce(np.abs(rows), axis=1, keepdims=True, initial=_LEAST_AMAX)
        shifted = rows * (_LEVELS / amax)
        shifted += _ZERO_STEP
        counts = shifted.astype(np.uint16)
        planes = np.empty((2, *rows.shape), dtype=np.uint8)
        planes[1] = counts  # keeps the low byte
        counts >>= 8
        planes[0] = counts
        # Zero times infinity is NaN; of anything else it is zero.
        steps = amax * (0 * amax + np.float32(1 / _LEVELS))
    return QuantizedRows(torch.from_numpy(planes).view(-1, rows.shape[1]), torch.from_numpy(steps))


@dataclass(frozen=True, slots=True, eq=False)
class PackedInt8:
    """An int8 matrix in the layout of `int8_product`."""

    values: torch.Tensor
    """As the C++ op reads it, or oneDNN's own tensor."""
    sums: torch.Tensor | None
    """`[out_features]`, int32, for the C++ op: 128 times the sum of each row. None for oneDNN."""


def int8_product(
    x: torch.Tensor, packed: PackedInt8, scales: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Multiply rows by an int8 matrix.

        out[t, n] = steps[t] * (256 * s(high[t, n]) + s(low[t, n])) + bias[n],   s(i) = float32(i) * scales[n]

    with `high` and `low` the products of `weight[n]` and the two bytes of `quantize_rows(x)[t]`, exact in int32. So a
    row's bits depend on nothing but itself, and are the same in C++ and with oneDNN. `x` is rounded to 1 / 32639 of the
    row's largest value, which is finer than bfloat16 down to 1 / 128 of it.

    Args:
        x: `[num_rows, in_features]`, float32, on the CPU.
        packed: the matrix, from `pack_int8`.
        scales: `[out_features]`, float32: one step of each row of the matrix.
        bias: `[out_features]`, float32.

    Returns:
        `[num_rows, out_features]`, float32, new. A row of `x` that holds NaN or infinity gives NaN.
    """
    if packed.sums is not None:
        return compiled.int8_product(x, packed.values, packed.sums, scales, bias)
    rows = quantize_rows(x)
    out = combine_planes(_product_of_planes(rows.planes, packed.values, scales), rows.steps)
    return out if bias is None else out.add_(bias)


def combine_planes(products: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    """Join the products of both bytes, in place.

    Args:
        products: `[2 * num_rows, out_features]`, float32: of the high bytes, then of the low bytes; overwritten.
        steps: `[num_rows, 1]`, float32.

    Returns:
        `[num_rows, out_features]`, a view of `products`.
    """
    high, low = products.chunk(2)
    # Multiplying by 256 is exact, so it does not matter whether it is fused with the addition.
    return torch.add(low, high, alpha=256, out=low).mul_(steps)


def pack_int8(weight: torch.Tensor) -> PackedInt8 | None:
    """Return `weight` in the layout of `int8_product`; None where this machine has no exact product for it.

    Args:
        weight: `[out_features, in_features]`, int8, on the CPU; may be dropped afterwards.
    """
    if weight.shape[1] > MAX_IN_FEATURES:
        return None
    if library() is not None and compiled.takes(weight):
        return PackedInt8(*compiled.pack_int8(weight))
    return PackedInt8(torch.ops.onednn.qlinear_prepack(weight, None), None) if has_exact_product() else None


@cache
def has_exact_product() -> bool:
    """Tell whether oneDNN adds up bytes without saturating, which it does only with VNNI instructions or the like."""
    draw = np.random.default_rng(0)
    weight = torch.from_numpy(draw.integers(-128, 128, (48, 320), dtype=np.int8))
    weight[:2] = torch.tensor([[-128], [127]])
    scales = torch.linspace(0.5, 1.5, len(weight))
    try:
        packed = torch.ops.onednn.qlinear_prepack(weight, None)
        for num_rows in _PROBED_ROWS:
            planes = torch.from_numpy(draw.integers(0, 256, (num_rows, weight.shape[1]), dtype=np.uint8))
            planes[num_rows // 2 :] = 255
            exact = (planes.double() - _ZERO_POINT) @ weight.double().T
            if not torch.equal(_product_of_planes(planes, packed, scales), exact.float() * scales):
                return False
    except (AttributeError, RuntimeError):  # built without oneDNN, or on a CPU for which it has no such product
        return False
    return True


def _product_of_planes(planes: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return torch.ops.onednn.qlinear_pointwise.default(
        planes, 1.0, _ZERO_POINT, packed, scales, _weight_zero_point(), None, 1.0, 0, torch.float32, "none", [], ""
    )


@cache
def _weight_zero_point() -> torch.Tensor:
    return torch.zeros(1, dtype=torch.int64)
