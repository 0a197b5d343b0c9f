# pyright: basic, reportCallIssue=false
"""`rms_norm` in Triton, and what every op with a sum over a row needs to give the same bits in any batch."""

import torch
import triton
import triton.language as tl

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.triton.aot import AotCase

MAX_ROW_SIZE = 16384
"""A program holds its row in registers: 32 elements per thread at 16 warps."""
ALIGNMENT = 16
"""Elements and bytes; what Triton tells apart when it compiles a kernel for the arguments of a launch."""


@triton.jit
def _rms_norm_kernel(x_ptr, weight_ptr, out_ptr, x_stride_row, eps, SIZE: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    """Normalize one row per program.

    x_ptr: `[num_rows, SIZE]`; weight_ptr: `[SIZE]`; out_ptr: `[num_rows, SIZE]`, contiguous.
    """
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_SIZE)
    inside = columns < SIZE
    x = tl.load(x_ptr + row * x_stride_row + columns, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    inverse = tl.rsqrt(tl.sum(x * x, axis=0) / SIZE + eps)
    tl.store(out_ptr + row * SIZE + columns, (x * inverse * weight).to(out_ptr.dtype.element_ty), mask=inside)


def takes(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Tell whether this version computes these."""
    return x.dtype in FLOAT_DTYPES and weight.dtype is x.dtype and 0 < x.shape[-1] <= MAX_ROW_SIZE


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """See `sureact_kernels.rms_norm`."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        rows = aligned_rows(x)
        size = rows.shape[1]
        _rms_norm_kernel[(rows.shape[0],)](
            *(rows, weight.contiguous(), out, stride_of_rows(rows), eps),
            SIZE=size,
            BLOCK_SIZE=triton.next_power_of_2(size),
            num_warps=num_warps_for(size),
        )
    return out


def aligned_rows(x: torch.Tensor) -> torch.Tensor:
    """Return `x` as `[num_rows, size]` in a layout that only depends on `size`; a copy where it lies in another one.

    Triton compiles a kernel again where an address or a stride is no multiple of 16, and is then free to share a row
    among its threads in another way: a sum might have other bits.
    """
    rows = x.reshape(-1, x.shape[-1])
    if rows.shape[1] % ALIGNMENT:
        return rows.contiguous()
    is_aligned = rows.stride(1) == 1 and stride_of_rows(rows) % ALIGNMENT == 0 and rows.data_ptr() % ALIGNMENT == 0
    return rows if is_aligned else rows.clone(memory_format=torch.contiguous_format)


def stride_of_rows(rows: torch.Tensor) -> int:
    """Return the stride from row to row; that of a single row may be anything, also to torch."""
    return rows.shape[1] if rows.is_contiguous() else rows.stride(0)


def num_warps_for(size: int) -> int:
    """Return the warps for a row of `size` elements: enough to read 16 bytes a thread at once, at most 16."""
    return min(16, max(1, triton.next_power_of_2(size) // 256))


AOT_ROWS = (
    ("bfloat16", "bf16", 1024),
    ("bfloat16", "bf16", 4096),
    ("float16", "fp16", 4096),
    ("float32", "fp32", 4096),
    ("float32", "fp32", MAX_ROW_SIZE),
)
AOT = tuple(
    AotCase(
        f"rms_norm {name} {size}",
        _rms_norm_kernel,
        {
            **dict.fromkeys(("x_ptr", "weight_ptr", "out_ptr"), f"*{kind}"),
            "x_stride_row": "i32:16",
            "eps": "fp32",
            "SIZE": "constexpr",
            "BLOCK_SIZE": "constexpr",
        },
        {"SIZE": size, "BLOCK_SIZE": triton.next_power_of_2(size)},
        num_warps=num_warps_for(size),
    )
    for name, kind, size in AOT_ROWS
)
