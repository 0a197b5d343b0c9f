# pyright: basic
"""`linear` on a GPU: which product runs for how many rows. Both give the same bits."""

from __future__ import annotations

import torch

from sureact_kernels.linear import LinearWeight
from sureact_kernels.triton.large_m_product import large_m_product
from sureact_kernels.triton.matrix_operand import MatrixOperand, takes_operands
from sureact_kernels.triton.product_shapes import MOST_SMALL_ROWS
from sureact_kernels.triton.small_m_product import small_m_product


def takes(x: torch.Tensor, values: torch.Tensor, scales: torch.Tensor | None = None) -> bool:
    """Tell whether this version computes these: `x` and the tensors of a weight.

    A dense weight has the dtype of `x`; beside int8, int4 and fp8, `x` is bfloat16.
    """
    return takes_operands(x, values, scales)


def linear(x: torch.Tensor, weight: LinearWeight, bias: torch.Tensor | None = None) -> torch.Tensor:
    """See `sureact_kernels.linear`. Sums in float32, rounds once."""
    return product(x, weight, bias)


def product(
    x: torch.Tensor, weight: LinearWeight, bias: torch.Tensor | None = None, *, is_gated: bool = False
) -> torch.Tensor:
    """Multiply with the product for this number of rows; with `is_gated` see `gated_linear`."""
    matrix = MatrixOperand.of(weight)
    if x.shape[0] == 0:
        return x.new_empty((0, matrix.out_features // (2 if is_gated else 1)))
    if x.stride(1) != 1:
        x = x.contiguous()
    chosen = small_m_product if x.shape[0] <= MOST_SMALL_ROWS else large_m_product
    return chosen(x, matrix, bias, is_gated=is_gated)
