"""The int4 product in C++."""

import math

import torch

from sureact_kernels.cpu.arena import ARENA
from sureact_kernels.cpu.library import call

GROUP_SIZE = 32
"""Columns that share a scale and a zero."""

_PANEL_ROWS, _PAIR_BYTES, _STEP_BYTES = 16, 4, 16
"""Rows that are packed together, and what a group of one takes: scale and zero in bfloat16, 32 steps."""


def takes(group_size: int) -> bool:
    """Tell whether this version multiplies with such a matrix."""
    return group_size == GROUP_SIZE


def pack_int4(nibbles: torch.Tensor, scales_and_zeros: torch.Tensor) -> torch.Tensor:
    """Return a matrix, scales and zeros as the product reads them, `[out_features / 16, num_groups, 320]`, uint8.

    Args:
        nibbles: `[out_features, in_features / 2]`, uint8.
        scales_and_zeros: `[num_groups, out_features, 2]`, bfloat16.
    """
    out_features, num_groups = nibbles.shape[0], scales_and_zeros.shape[0]
    shape = (out_features // _PANEL_ROWS, num_groups, _PANEL_ROWS * (_PAIR_BYTES + _STEP_BYTES))
    values = ARENA.empty(math.prod(shape)).view(shape)
    call(
        "pack_int4", nibbles.contiguous(), scales_and_zeros.contiguous(), out_features, num_groups * GROUP_SIZE, values
    )
    return values


def int4_product(x: torch.Tensor, values: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """See `sureact_kernels.int4_product`."""
    x = x.contiguous()
    num_rows, out_features = x.shape[0], values.shape[0] * _PANEL_ROWS
    out = x.new_empty((num_rows, out_features))
    call("int4_product", x, num_rows, values, bias, out, out_features, x.shape[1])
    return out
