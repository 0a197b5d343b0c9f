# pyright: basic
# Triton declares neither what its decorators add to a kernel nor what its ranges yield:
# pyright: reportGeneralTypeIssues=false, reportCallIssue=false, reportArgumentType=false
"""Products of 1 to 64 rows, as decoding needs them: the matrix is read once, in splits where its rows are few."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sureact_kernels.triton.matrix_operand import MatrixOperand
from sureact_kernels.triton.product_shapes import ROWS_OF_A_TILE, product_shape
from sureact_kernels.triton.product_tile import finished, gated, split_sums

NUM_WARPS, NUM_STAGES = 4, 4
MERGE_BLOCK = 256
"""Outputs that one program of the merging takes. Not measured yet, like the two above."""


@triton.jit
def small_m_product_kernel(
    out_ptr, x_ptr, weight_ptr, scales_ptr, bias_ptr, num_rows, out_features, in_features, x_stride_m, weight_stride_n,
    split_size, FORM: tl.constexpr, GROUP_SIZE: tl.constexpr, HAS_BIAS: tl.constexpr, IS_GATED: tl.constexpr,
    IS_SPLIT: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr, TILE_M: tl.constexpr, NUM_TILES: tl.constexpr,
):  # fmt: skip
    """Program (b, s) multiplies all rows with block b of the matrix, over the columns of split s.

    With IS_GATED it takes block b of the gate and block b of the up half, and without splits joins them.

    out_ptr: `[num_rows, out_features]`, half as wide with IS_GATED; with IS_SPLIT float32
        `[num_splits, num_rows, out_features]`, neither scaled nor joined.
    x_ptr: `[num_rows, in_features]`; weight_ptr, scales_ptr: see `MatrixOperand`; bias_ptr: `[out_features]`.
    """
    split = tl.program_id(1)
    num_outs = out_features // 2 if IS_GATED else out_features
    outs = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    exist = (outs < num_outs)[:, None]
    outs = tl.minimum(outs, num_outs - 1).to(tl.int64)
    sums = split_sums(
        x_ptr, weight_ptr, scales_ptr, x_stride_m, weight_stride_n, 0, outs, split * split_size, num_rows,
        out_features, in_features, split_size, FORM, GROUP_SIZE, BLOCK_N, BLOCK_K, EVEN_K, TILE_M, NUM_TILES,
    )  # fmt: skip
    if IS_GATED:
        ups = split_sums(
            x_ptr, weight_ptr, scales_ptr, x_stride_m, weight_stride_n, 0, outs + num_outs, split * split_size,
            num_rows, out_features, in_features, split_size, FORM, GROUP_SIZE, BLOCK_N, BLOCK_K, EVEN_K, TILE_M,
            NUM_TILES,
        )  # fmt: skip
    width = out_features if IS_SPLIT else num_outs
    for tile in tl.static_range(NUM_TILES):
        rows = tile * TILE_M + tl.arange(0, TILE_M)
        mask = exist & (rows < num_rows)[None, :]
        out_ptrs = out_ptr + (split * num_rows + rows[None, :]).to(tl.int64) * width + outs[:, None]
        if IS_SPLIT:
            tl.store(out_ptrs, sums[tile], mask=mask)
            if IS_GATED:
                tl.store(out_ptrs + num_outs, ups[tile], mask=mask)
        else:
            out = finished(sums[tile], scales_ptr, bias_ptr, outs[:, None], FORM, HAS_BIAS)
            if IS_GATED:
                out = gated(out, finished(ups[tile], scales_ptr, bias_ptr, outs[:, None] + num_outs, FORM, HAS_BIAS))
            tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def merge_splits_kernel(
    out_ptr, sums_ptr, scales_ptr, bias_ptr, num_rows, out_features, num_splits,
    FORM: tl.constexpr, HAS_BIAS: tl.constexpr, IS_GATED: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Program (m, b) adds up the splits of block b of row m, the first split first.

    out_ptr: `[num_rows, out_features]`, half as wide with IS_GATED.
    sums_ptr: `[num_splits, num_rows, out_features]`, float32.
    """
    row = tl.program_id(0).to(tl.int64)
    num_outs = out_features // 2 if IS_GATED else out_features
    outs = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = outs < num_outs
    total, up_total = tl.zeros((BLOCK_N,), tl.float32), tl.zeros((BLOCK_N,), tl.float32)
    for split in range(num_splits):
        sums_ptrs = sums_ptr + (split * num_rows + row) * out_features + outs
        total += tl.load(sums_ptrs, mask=mask, other=0)
        if IS_GATED:
            up_total += tl.load(sums_ptrs + num_outs, mask=mask, other=0)
    inside = tl.minimum(outs, num_outs - 1)
    out = finished(total, scales_ptr, bias_ptr, inside, FORM, HAS_BIAS)
    if IS_GATED:
        out = gated(out, finished(up_total, scales_ptr, bias_ptr, inside + num_outs, FORM, HAS_BIAS))
    tl.store(out_ptr + row * num_outs + outs, out.to(out_ptr.dtype.element_ty), mask=mask)


def small_m_product(
    x: torch.Tensor, matrix: MatrixOperand, bias: torch.Tensor | None = None, *, is_gated: bool = False
) -> torch.Tensor:
    """Multiply rows by a matrix, up to `MOST_SMALL_ROWS` of them; with `is_gated` also join gate and up.

    Args:
        x: `[num_rows, in_features]`, last dimension contiguous.
        matrix: the matrix.
        bias: `[out_features]`.
        is_gated: whether the first half of the outputs gates the second.
    """
    num_rows, in_features = x.shape
    num_outs = matrix.out_features // (2 if is_gated else 1)
    shape = product_shape(num_outs, in_features, matrix.bits)
    num_splits = triton.cdiv(in_features, shape.split_size)
    out = x.new_empty((num_rows, num_outs))
    is_split = num_splits > 1
    sums = x.new_empty((num_splits, num_rows, matrix.out_features), dtype=torch.float32) if is_split else out
    small_m_product_kernel[(triton.cdiv(num_outs, shape.block_n), num_splits)](
        sums, x, matrix.values, matrix.scales, bias, num_rows, matrix.out_features, in_features, x.stride(0),
        matrix.values.stride(0), shape.split_size, FORM=matrix.form, GROUP_SIZE=matrix.group_size,
        HAS_BIAS=bias is not None,
        IS_GATED=is_gated, IS_SPLIT=is_split, BLOCK_N=shape.block_n,
        BLOCK_K=shape.block_k, EVEN_K=in_features % shape.block_k == 0, TILE_M=ROWS_OF_A_TILE,
        NUM_TILES=triton.next_power_of_2(triton.cdiv(num_rows, ROWS_OF_A_TILE)), num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )  # fmt: skip
    if is_split:
        merge_splits_kernel[(num_rows, triton.cdiv(num_outs, MERGE_BLOCK))](
            out, sums, matrix.scales, bias, num_rows, matrix.out_features, num_splits, FORM=matrix.form,
            HAS_BIAS=bias is not None, IS_GATED=is_gated, BLOCK_N=MERGE_BLOCK,
        )  # fmt: skip
    return out
