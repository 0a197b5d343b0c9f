# pyright: basic, reportCallIssue=false
"""`silu_and_mul` in Triton."""

import torch
import triton
import triton.language as tl

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.triton.aot import AotCase

BLOCK_SIZE = 1024
"""Columns of a program; 8 per thread at 4 warps."""


@triton.jit
def _silu_and_mul_kernel(gate_up_ptr, out_ptr, gate_up_stride_row, size, BLOCK_SIZE: tl.constexpr):
    """Compute a block of columns of one row per program; programs: (row, block).

    gate_up_ptr: `[num_rows, 2 * size]`; out_ptr: `[num_rows, size]`, contiguous.
    """
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = columns < size
    gate_ptr = gate_up_ptr + row * gate_up_stride_row + columns
    gate = tl.load(gate_ptr, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_ptr + size, mask=inside, other=0.0).to(tl.float32)
    # Only powers of e that are at most 1: none overflows.
    power = tl.exp(-tl.abs(gate))
    sigmoid = tl.where(gate >= 0, 1.0, power) / (1.0 + power)
    tl.store(out_ptr + row * size + columns, (gate * sigmoid * up).to(out_ptr.dtype.element_ty), mask=inside)


def takes(gate_up: torch.Tensor) -> bool:
    """Tell whether this version computes these."""
    return gate_up.dtype in FLOAT_DTYPES


def silu_and_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """See `sureact_kernels.silu_and_mul`."""
    size = gate_up.shape[-1] // 2
    out = torch.empty((*gate_up.shape[:-1], size), dtype=gate_up.dtype, device=gate_up.device)
    if out.numel():
        rows = gate_up.reshape(-1, 2 * size)
        rows = rows if rows.stride(1) == 1 else rows.contiguous()
        grid = (rows.shape[0], triton.cdiv(size, BLOCK_SIZE))
        _silu_and_mul_kernel[grid](rows, out, rows.stride(0), size, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)
    return out


AOT = tuple(
    AotCase(
        f"silu_and_mul {name}",
        _silu_and_mul_kernel,
        {
            **dict.fromkeys(("gate_up_ptr", "out_ptr"), f"*{kind}"),
            "gate_up_stride_row": "i32:16",
            "size": "i32:16",
            "BLOCK_SIZE": "constexpr",
        },
        {"BLOCK_SIZE": BLOCK_SIZE},
    )
    for name, kind in (("bfloat16", "bf16"), ("float16", "fp16"), ("float32", "fp32"))
)
