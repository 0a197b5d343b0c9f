# pyright: basic
# Triton declares neither what its decorators add to a kernel nor what its ranges yield:
# pyright: reportGeneralTypeIssues=false, reportCallIssue=false, reportArgumentType=false
"""Products of many rows, as prefill needs them, in the order of sums of the small-M product.

A row's bits must not depend on which of the two computes it: the splits are the same, and are added up in the same
order, but inside one program. What is wider is the tile of `x`, which no element of a tensor core's product depends on.
The interpreter's tests show that the order is the same; on a GPU the benchmark of invariance compares bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sureact_kernels.triton.matrix_operand import MatrixOperand
from sureact_kernels.triton.product_shapes import large_tile, product_shape
from sureact_kernels.triton.product_tile import finished, gated, split_sums


@triton.jit
def large_m_product_kernel(
    out_ptr, x_ptr, weight_ptr, scales_ptr, bias_ptr, num_rows, out_features, in_features, x_stride_m, weight_stride_n,
    split_size, FORM: tl.constexpr, GROUP_SIZE: tl.constexpr, HAS_BIAS: tl.constexpr, IS_GATED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr,
):  # fmt: skip
    """Program (m, n) computes a tile of `out`. Neighbors share a block of the matrix, so that it stays in the cache.

    out_ptr: `[num_rows, out_features]`, half as wide with IS_GATED.
    x_ptr: `[num_rows, in_features]`; weight_ptr, scales_ptr: see `MatrixOperand`; bias_ptr: `[out_features]`.
    """
    first_row = tl.program_id(0) * BLOCK_M
    num_outs = out_features // 2 if IS_GATED else out_features
    outs = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    exist = (outs < num_outs)[:, None]
    outs = tl.minimum(outs, num_outs - 1).to(tl.int64)
    total = _sum_of_splits(
        x_ptr, weight_ptr, scales_ptr, x_stride_m, weight_stride_n, first_row, outs, num_rows, out_features,
        in_features, split_size, FORM, GROUP_SIZE, BLOCK_M, BLOCK_N, BLOCK_K, EVEN_K,
    )  # fmt: skip
    out = finished(total, scales_ptr, bias_ptr, outs[:, None], FORM, HAS_BIAS)
    if IS_GATED:
        ups = outs + num_outs
        total = _sum_of_splits(
            x_ptr, weight_ptr, scales_ptr, x_stride_m, weight_stride_n, first_row, ups, num_rows, out_features,
            in_features, split_size, FORM, GROUP_SIZE, BLOCK_M, BLOCK_N, BLOCK_K, EVEN_K,
        )  # fmt: skip
        out = gated(out, finished(total, scales_ptr, bias_ptr, ups[:, None], FORM, HAS_BIAS))
    rows = first_row + tl.arange(0, BLOCK_M)
    mask = exist & (rows < num_rows)[None, :]
    out_ptrs = out_ptr + rows[None, :].to(tl.int64) * num_outs + outs[:, None]
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _sum_of_splits(
    x_ptr, weight_ptr, scales_ptr, x_stride_m, weight_stride_n, first_row, outs, num_rows, out_features, in_features,
    split_size, FORM: tl.constexpr, GROUP_SIZE: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    """Return what the small-M product's splits and their merging give: `[BLOCK_N, BLOCK_M]`, float32."""
    total = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for first in range(0, in_features, split_size):
        sums = split_sums(
            x_ptr, weight_ptr, scales_ptr, x_stride_m, weight_stride_n, first_row, outs, first, num_rows, out_features,
            in_features, split_size, FORM, GROUP_SIZE, BLOCK_N, BLOCK_K, EVEN_K, BLOCK_M, 1,
        )  # fmt: skip
        total += sums[0]
    return total


def large_m_product(
    x: torch.Tensor, matrix: MatrixOperand, bias: torch.Tensor | None = None, *, is_gated: bool = False
) -> torch.Tensor:
    """Multiply any number of rows by a matrix; parameters are those of `small_m_product`."""
    num_rows, in_features = x.shape
    num_outs = matrix.out_features // (2 if is_gated else 1)
    shape = product_shape(num_outs, in_features, matrix.bits)
    tile = large_tile(matrix.bits, is_gated=is_gated, is_fp8=matrix.form == "fp8")
    out = x.new_empty((num_rows, num_outs))
    large_m_product_kernel[(triton.cdiv(num_rows, tile.block_m), triton.cdiv(num_outs, tile.block_n))](
        out, x, matrix.values, matrix.scales, bias, num_rows, matrix.out_features, in_features, x.stride(0),
        matrix.values.stride(0), shape.split_size, FORM=matrix.form, GROUP_SIZE=matrix.group_size,
        HAS_BIAS=bias is not None,
        IS_GATED=is_gated, BLOCK_M=tile.block_m, BLOCK_N=tile.block_n,
        BLOCK_K=shape.block_k, EVEN_K=in_features % shape.block_k == 0, num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )  # fmt: skip
    return out
