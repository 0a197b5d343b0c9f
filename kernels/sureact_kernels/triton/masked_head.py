# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
"""`masked_head` in Triton: 32 rows of a dense head for each word of the mask that is not 0."""

import torch
import triton
import triton.language as tl
from triton import knobs

from sureact_kernels.arguments import check_shape
from sureact_kernels.errors import KernelInputError
from sureact_kernels.linear import DenseWeight, LinearWeight
from sureact_kernels.triton.aot import AotCase

_WIDENS = knobs.runtime.interpret
"""Triton's interpreter (3.9) multiplies the bit patterns of bfloat16. In float32 the products are the same, exactly."""

_BLOCK_M = 16
"""Rows of `x` in a product, whatever their number: every row sees products of one shape."""

_BLOCK_K = 128
"""Columns that are summed at once, one block after another from the first column on. Part of what fixes the bits of a
logit; never chosen by the number of rows or by the mask."""


# Compiled once for any number of rows, a single one included.
@triton.jit(do_not_specialize=["num_rows"])
def _masked_head_kernel(
    x_ptr,
    weight_ptr,
    bitmask_ptr,
    out_ptr,
    num_rows,
    num_logits,
    hidden_size,
    x_stride_row,
    weight_stride_logit,
    bitmask_stride_row,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    WIDENS: tl.constexpr,
):
    """Compute the 32 logits of one word of the mask for `BLOCK_M` rows, or none of them where the word is 0 in all.

    Pointers: x `[num_rows, hidden_size]`, weight `[num_logits, hidden_size]`, bitmask `[num_rows, words]`, out
    `[num_rows, num_logits]` float32. Blocks of rows lie side by side in the grid, so that they share the weight in L2.
    """
    word = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    is_row = rows < num_rows
    ids = word * 32 + tl.arange(0, 32)
    is_id = ids < num_logits
    words = tl.load(bitmask_ptr + rows.to(tl.int64) * bitmask_stride_row + word, mask=is_row, other=0)
    logits = tl.zeros((BLOCK_M, 32), dtype=tl.float32)
    if tl.max((words != 0).to(tl.int32), 0) > 0:
        columns = tl.arange(0, BLOCK_K)
        x_ptrs = x_ptr + rows.to(tl.int64)[:, None] * x_stride_row + columns[None, :]
        weight_ptrs = weight_ptr + ids.to(tl.int64)[None, :] * weight_stride_logit + columns[:, None]
        for start in range(0, hidden_size, BLOCK_K):
            is_column = columns < hidden_size - start
            x = tl.load(x_ptrs + start, mask=is_row[:, None] & is_column[None, :], other=0.0)
            weight = tl.load(weight_ptrs + start, mask=is_id[None, :] & is_column[:, None], other=0.0)
            if WIDENS:
                x, weight = x.to(tl.float32), weight.to(tl.float32)
            logits = tl.dot(x, weight, logits)
    logits = logits.to(x_ptr.dtype.element_ty).to(tl.float32)
    logits = tl.where((words != 0)[:, None], logits, float("-inf"))
    out_ptrs = out_ptr + rows.to(tl.int64)[:, None] * num_logits + ids[None, :]
    tl.store(out_ptrs, logits, mask=is_row[:, None] & is_id[None, :])


def takes(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Tell whether this version computes these: `x` and the matrix of a `DenseWeight`, both in one half precision."""
    return x.dtype in (torch.bfloat16, torch.float16) and weight.dtype is x.dtype and weight.dim() == 2


def masked_head(x: torch.Tensor, weight: LinearWeight, bitmask: torch.Tensor) -> torch.Tensor:
    """See `sureact_kernels.masked_head`; the mask may be on the host or on the device of `x`.

    All logits of a word that is not 0 are computed, -inf stands where it is 0. A logit has the bits that this function
    gives with a full mask; its sums are rounded to the dtype of `x` once.
    """
    if not isinstance(weight, DenseWeight):
        raise KernelInputError(f"masked_head: the weight is a {type(weight).__name__}; it must be a DenseWeight.")
    matrix = weight.weight
    num_logits, hidden_size = matrix.shape
    check_shape("masked_head", "x", x, (None, hidden_size))
    num_rows = len(x)
    num_words = triton.cdiv(num_logits, 32)
    check_shape("masked_head", "bitmask", bitmask, (num_rows, num_words))
    out = torch.empty(num_rows, num_logits, dtype=torch.float32, device=x.device)
    if out.numel() == 0:
        return out
    x, matrix = (t if t.stride(1) == 1 else t.contiguous() for t in (x, matrix))
    bitmask = bitmask.to(x.device, non_blocking=True)
    bitmask = bitmask if bitmask.stride(1) == 1 else bitmask.contiguous()
    _masked_head_kernel[(triton.cdiv(num_rows, _BLOCK_M), num_words)](
        x,
        matrix,
        bitmask,
        out,
        num_rows,
        num_logits,
        hidden_size,
        x.stride(0),
        matrix.stride(0),
        bitmask.stride(0),
        BLOCK_M=_BLOCK_M,
        BLOCK_K=_BLOCK_K,
        WIDENS=_WIDENS,
    )
    return out


AOT: tuple[AotCase, ...] = tuple(
    AotCase(
        f"masked_head {dtype}",
        _masked_head_kernel,
        {
            "x_ptr": pointer,
            "weight_ptr": pointer,
            "bitmask_ptr": "*i32",
            "out_ptr": "*fp32",
            "num_rows": "i32",
            "num_logits": "i32:16",
            "hidden_size": "i32:16",
            "x_stride_row": "i32:16",
            "weight_stride_logit": "i32:16",
            "bitmask_stride_row": "i32",
            "BLOCK_M": "constexpr",
            "BLOCK_K": "constexpr",
            "WIDENS": "constexpr",
        },
        {"BLOCK_M": _BLOCK_M, "BLOCK_K": _BLOCK_K, "WIDENS": False},
    )
    for dtype, pointer in (("bfloat16", "*bf16"), ("float16", "*fp16"))
)
