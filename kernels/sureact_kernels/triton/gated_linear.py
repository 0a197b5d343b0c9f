# pyright: basic
"""`gated_linear` on a GPU: the products of `linear`, where one program has gate and up of an output and joins them."""

from __future__ import annotations

import torch

from sureact_kernels.linear import LinearWeight
from sureact_kernels.triton.linear import product
from sureact_kernels.triton.matrix_operand import takes_operands


def takes(x: torch.Tensor, values: torch.Tensor, scales: torch.Tensor | None = None) -> bool:
    """Tell whether this version computes these: what `linear` takes, with an even number of outputs."""
    return takes_operands(x, values, scales) and values.shape[0] % 2 == 0


def gated_linear(x: torch.Tensor, weight: LinearWeight) -> torch.Tensor:
    """See `sureact_kernels.gated_linear`. Gate and up stay float32 until they are joined."""
    return product(x, weight, is_gated=True)
