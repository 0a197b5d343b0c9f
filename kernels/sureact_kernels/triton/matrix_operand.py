# pyright: basic
"""A weight matrix as the kernels of products take it."""

from __future__ import annotations

from typing import NamedTuple

import torch

from sureact_kernels.linear import DenseWeight, Int4Weight, Int8Weight, LinearWeight

_FLOAT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_SCALE_DTYPES = (torch.bfloat16, torch.float32)
_GROUP_SIZES = (32, 64, 128, 256)


class MatrixOperand(NamedTuple):
    """The tensors of a weight."""

    form: str
    """`dense`, `int8`, `int4` or `fp8`."""
    values: torch.Tensor
    """`[out_features, in_features]`, fp8 as uint8; for int4 uint8 `[out_features, in_features / 2]`."""
    scales: torch.Tensor | None
    """`[out_features]`; for int4 `[in_features / group_size, out_features, 2]`; None for dense."""
    group_size: int
    """Columns that share a scale, for int4; else 0."""

    @property
    def out_features(self) -> int:
        """Rows of the matrix."""
        return self.values.shape[0]

    @property
    def bits(self) -> int:
        """Bits that one weight takes."""
        return 4 if self.form == "int4" else self.values.element_size() * 8

    @classmethod
    def of(cls, weight: LinearWeight) -> MatrixOperand:
        """Return the operand of a weight, without copying."""
        if isinstance(weight, DenseWeight):
            return cls("dense", weight.weight, None, 0)
        if isinstance(weight, Int4Weight):
            return cls("int4", weight.nibbles, weight.scales_and_zeros, weight.group_size)
        if isinstance(weight, Int8Weight):
            return cls("int8", weight.weight, weight.scales, 0)
        return cls("fp8", weight.weight.view(torch.uint8), weight.scales, 0)


def takes_operands(x: torch.Tensor, values: torch.Tensor, scales: torch.Tensor | None = None) -> bool:
    """Tell whether the products compute `x` times a matrix: see `takes` of `linear`."""
    if x.dim() != 2 or values.dim() != 2 or 0 in values.shape or values.stride(1) != 1 or values.device != x.device:
        return False
    in_features = x.shape[1]
    if scales is None:
        return values.dtype is x.dtype and x.dtype in _FLOAT_DTYPES and values.shape[1] == in_features
    if x.dtype is not torch.bfloat16 or not scales.is_contiguous() or scales.device != x.device:
        return False
    if values.dtype is torch.uint8:
        has_groups = scales.dim() == 3 and scales.shape[1:] == (values.shape[0], 2) and scales.shape[0] > 0
        return (
            has_groups
            and scales.dtype is torch.bfloat16
            and in_features == 2 * values.shape[1]
            and in_features % scales.shape[0] == 0
            and in_features // scales.shape[0] in _GROUP_SIZES
        )
    is_known = values.dtype in (torch.int8, torch.float8_e4m3fn) and scales.dtype in _SCALE_DTYPES
    return is_known and values.shape[1] == in_features and scales.shape == values.shape[:1]
