# pyright: basic, reportCallIssue=false
"""`embedding` in Triton."""

import torch
import triton
import triton.language as tl

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.triton.aot import AotCase

BLOCK_SIZE = 1024
"""Columns of a program; 8 per thread at 4 warps."""


@triton.jit
def _embedding_kernel(
    token_ids_ptr,
    weight_ptr,
    out_ptr,
    token_ids_stride_token,
    weight_stride_row,
    vocab_size,
    size,
    BLOCK_SIZE: tl.constexpr,
):
    """Copy a block of columns of one token's row per program; programs: (token, block).

    token_ids_ptr: `[num_tokens]`, int64; weight_ptr: `[vocab_size, size]`; out_ptr: `[num_tokens, size]`, contiguous.
    A token that is not in the table gets a row of NaN, which the choice of the next token refuses; no address outside
    of the table is read.
    """
    token = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    token_id = tl.load(token_ids_ptr + token * token_ids_stride_token).to(tl.int64)
    inside = columns < size
    known_size = tl.where((token_id >= 0) & (token_id < vocab_size), size, 0)
    row = tl.load(weight_ptr + token_id * weight_stride_row + columns, mask=columns < known_size, other=float("nan"))
    tl.store(out_ptr + token * size + columns, row, mask=inside)


def takes(token_ids: torch.Tensor, weight: torch.Tensor) -> bool:
    """Tell whether this version computes these."""
    return token_ids.dtype is torch.int64 and weight.dtype in FLOAT_DTYPES and weight.stride(1) == 1


def embedding(token_ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """See `sureact_kernels.embedding`."""
    num_tokens, (vocab_size, size) = token_ids.shape[0], weight.shape
    out = torch.empty((num_tokens, size), dtype=weight.dtype, device=weight.device)
    if out.numel():
        _embedding_kernel[(num_tokens, triton.cdiv(size, BLOCK_SIZE))](
            *(token_ids, weight, out, token_ids.stride(0), weight.stride(0), vocab_size, size),
            BLOCK_SIZE=BLOCK_SIZE,
            num_warps=4,
        )
    return out


AOT = tuple(
    AotCase(
        f"embedding {name}",
        _embedding_kernel,
        {
            "token_ids_ptr": "*i64",
            "weight_ptr": f"*{kind}",
            "out_ptr": f"*{kind}",
            "token_ids_stride_token": "i32",
            "weight_stride_row": "i32:16",
            "vocab_size": "i32:16",
            "size": "i32:16",
            "BLOCK_SIZE": "constexpr",
        },
        {"BLOCK_SIZE": BLOCK_SIZE},
    )
    for name, kind in (("bfloat16", "bf16"), ("float16", "fp16"), ("float32", "fp32"))
)
