# pyright: basic, reportCallIssue=false
"""`add_rms_norm` in Triton."""

import torch
import triton
import triton.language as tl

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.triton.aot import AotCase
from sureact_kernels.triton.rms_norm import AOT_ROWS, MAX_ROW_SIZE, aligned_rows, num_warps_for, stride_of_rows


@triton.jit
def _add_rms_norm_kernel(
    x_ptr,
    residual_ptr,
    weight_ptr,
    out_ptr,
    total_ptr,
    x_stride_row,
    residual_stride_row,
    eps,
    SIZE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """Add two rows per program, and normalize the sum.

    x_ptr, residual_ptr: `[num_rows, SIZE]`; weight_ptr: `[SIZE]`; out_ptr, total_ptr: `[num_rows, SIZE]`, contiguous.
    """
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_SIZE)
    inside = columns < SIZE
    x = tl.load(x_ptr + row * x_stride_row + columns, mask=inside, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + row * residual_stride_row + columns, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    # What is normalized is the stream as the next block reads it: rounded.
    stored = (residual + x).to(total_ptr.dtype.element_ty)
    tl.store(total_ptr + row * SIZE + columns, stored, mask=inside)
    total = stored.to(tl.float32)
    inverse = tl.rsqrt(tl.sum(total * total, axis=0) / SIZE + eps)
    tl.store(out_ptr + row * SIZE + columns, (total * inverse * weight).to(out_ptr.dtype.element_ty), mask=inside)


def takes(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> bool:
    """Tell whether this version computes these."""
    dtypes_fit = x.dtype in FLOAT_DTYPES and residual.dtype is x.dtype and weight.dtype is x.dtype
    return dtypes_fit and 0 < x.shape[-1] <= MAX_ROW_SIZE


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `sureact_kernels.add_rms_norm`."""
    out, total = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(2))
    if out.numel():
        rows, residual_rows = aligned_rows(x), aligned_rows(residual)
        size = rows.shape[1]
        _add_rms_norm_kernel[(rows.shape[0],)](
            *(rows, residual_rows, weight.contiguous(), out, total),
            *(stride_of_rows(rows), stride_of_rows(residual_rows), eps),
            SIZE=size,
            BLOCK_SIZE=triton.next_power_of_2(size),
            num_warps=num_warps_for(size),
        )
    return out, total


AOT = tuple(
    AotCase(
        f"add_rms_norm {name} {size}",
        _add_rms_norm_kernel,
        {
            **dict.fromkeys(("x_ptr", "residual_ptr", "weight_ptr", "out_ptr", "total_ptr"), f"*{kind}"),
            "x_stride_row": "i32:16",
            "residual_stride_row": "i32:16",
            "eps": "fp32",
            "SIZE": "constexpr",
            "BLOCK_SIZE": "constexpr",
        },
        {"SIZE": size, "BLOCK_SIZE": triton.next_power_of_2(size)},
        num_warps=num_warps_for(size),
    )
    for name, kind, size in AOT_ROWS
)
