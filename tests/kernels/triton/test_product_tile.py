"""A tile of a matrix is read right: every value that its form can hold, past the last column, in every group."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from sureact_kernels.linear import Fp8Weight, Int4Weight, Int8Weight, LinearWeight, dequantized
from sureact_kernels.triton.matrix_operand import MatrixOperand
from sureact_kernels.triton.product_tile import load_weights


@triton.jit
def _read_tile_kernel(
    out_ptr: Any, weight_ptr: Any, scales_ptr: Any, weight_stride_n: Any, start: Any, out_features: Any,
    in_features: Any, form: tl.constexpr, group_size: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
    is_even: tl.constexpr,
) -> None:  # fmt: skip
    """Write a tile of the first block_n rows to `out_ptr`, `[block_n, block_k]`."""
    outs = tl.arange(0, block_n).to(tl.int64)
    tile = load_weights(
        weight_ptr, scales_ptr, weight_stride_n, outs, start, out_features, in_features,
        tl.float32,  # pyright: ignore[reportArgumentType]
        form, group_size, block_n, block_k, is_even,
    )  # fmt: skip
    tl.store(out_ptr + outs[:, None] * block_k + tl.arange(0, block_k)[None, :], tile)


def tile_of(weight: LinearWeight, start: int, in_features: int, block_k: int) -> torch.Tensor:
    matrix = MatrixOperand.of(weight)
    out = torch.full((matrix.out_features, block_k), torch.nan)
    kernel: Any = _read_tile_kernel
    kernel[(1,)](
        out, matrix.values, matrix.scales, matrix.values.stride(0), start, matrix.out_features, in_features,
        form=matrix.form, group_size=matrix.group_size, block_n=matrix.out_features, block_k=block_k,
        is_even=in_features % block_k == 0,
    )  # fmt: skip
    return out


def test_every_fp8_value_is_read_exactly() -> None:
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    weight = Fp8Weight(codes.view(torch.float8_e4m3fn).reshape(16, 16), torch.ones(16))
    assert torch.equal(tile_of(weight, 0, 16, 16).nan_to_num(9e9), weight.weight.float().nan_to_num(9e9))


def test_every_int8_value_is_read_exactly() -> None:
    values = torch.arange(-128, 128).to(torch.int8).reshape(16, 16)
    assert torch.equal(tile_of(Int8Weight(values, torch.ones(16).bfloat16()), 0, 16, 16), values.float())


@pytest.mark.parametrize("group_size", [32, 64, 128, 256])
def test_int4_has_the_scale_and_the_zero_of_its_group(group_size: int) -> None:
    """Blocks of 64 columns hold two groups, one, or part of one; the last block may be half empty."""
    in_features = group_size * 3
    nibbles = torch.randint(0, 256, (16, in_features // 2), dtype=torch.uint8)
    weight = Int4Weight(nibbles, torch.randn(3, 16, 2).bfloat16(), group_size)
    matrix = torch.nn.functional.pad(dequantized(weight), (0, -in_features % 64))
    for start in range(0, in_features, 64):
        inside = slice(0, in_features - start)
        tile = tile_of(weight, start, in_features, 64)
        assert torch.equal(tile[:, inside], matrix[:, start : start + 64][:, inside])
