# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
"""`masked_argmax` in Triton: the best of every block of the vocabulary, then the best of the blocks."""

import torch
import triton
import triton.language as tl

from sureact_kernels import masked_argmax as contract
from sureact_kernels.arguments import check_shape
from sureact_kernels.masked_argmax import check_picked
from sureact_kernels.triton.aot import AotCase

NOTHING_ALLOWED = tl.constexpr(contract.NOTHING_ALLOWED)
IS_NAN = tl.constexpr(contract.IS_NAN)

_NO_ID = tl.constexpr(2**31 - 1)
"""Above every id, so that the lowest id of a block without any is none."""

_BLOCK_N = 1024
"""About 150 programs for one row of 152,000 logits: one for each multiprocessor of a large GPU."""


@triton.jit
def _masked_argmax_kernel(
    logits_ptr,
    bitmask_ptr,
    seen_ptr,
    penalties_ptr,
    best_ptr,
    id_ptr,
    num_logits,
    num_blocks,
    logits_stride_row,
    bitmask_stride_row,
    seen_stride_row,
    BLOCK_N: tl.constexpr,
    HAS_SEEN: tl.constexpr,
):
    """Find the best of one block of one row; logits that are not allowed are not read.

    Pointers: logits `[num_rows, num_logits]`, bitmask `[num_rows, words]`, with `HAS_SEEN` also seen like bitmask and
    penalties `[num_rows]` float32; best float32 and id int32
    `[num_rows, num_blocks]`. The id of a block that allows nothing is `_NO_ID`, with an allowed NaN it is `IS_NAN`.
    """
    row, block = tl.program_id(0), tl.program_id(1)
    ids = block * BLOCK_N + tl.arange(0, BLOCK_N)
    is_id = ids < num_logits
    words = tl.load(bitmask_ptr + row.to(tl.int64) * bitmask_stride_row + ids // 32, mask=is_id, other=0)
    allowed = ((words >> (ids % 32)) & 1) == 1
    logits = tl.load(logits_ptr + row.to(tl.int64) * logits_stride_row + ids, mask=allowed, other=0.0).to(tl.float32)
    if HAS_SEEN:
        words = tl.load(seen_ptr + row.to(tl.int64) * seen_stride_row + ids // 32, mask=is_id, other=0)
        penalty = tl.load(penalties_ptr + row)
        # Rounded as torch rounds it; the quick division of a GPU is off by a bit or two.
        penalized = tl.where(logits > 0, tl.div_rn(logits, penalty), logits * penalty)
        logits = tl.where(((words >> (ids % 32)) & 1) == 1, penalized, logits)
    is_nan = allowed & (logits != logits)
    logits = tl.where(allowed & (logits == logits), logits, float("-inf"))
    best = tl.max(logits, 0)
    lowest = tl.min(tl.where(allowed & (logits == best), ids, _NO_ID), 0)
    out = row.to(tl.int64) * num_blocks + block
    tl.store(best_ptr + out, best)
    tl.store(id_ptr + out, tl.where(tl.max(is_nan.to(tl.int32), 0) > 0, IS_NAN, lowest))


@triton.jit
def _merge_blocks_kernel(best_ptr, id_ptr, picked_ptr, num_blocks, BLOCK_BLOCKS: tl.constexpr):
    """Merge the blocks of one row.

    Pointers: best and id as `_masked_argmax_kernel` writes them, picked `[num_rows]` int64.
    """
    row = tl.program_id(0)
    blocks = tl.arange(0, BLOCK_BLOCKS)
    is_block = blocks < num_blocks
    at = row.to(tl.int64) * num_blocks + blocks
    ids = tl.load(id_ptr + at, mask=is_block, other=_NO_ID)
    bests = tl.load(best_ptr + at, mask=is_block, other=float("-inf"))
    is_nan = tl.min(ids, 0) == IS_NAN
    picked = tl.min(tl.where(bests == tl.max(bests, 0), ids, _NO_ID), 0)
    picked = tl.where(picked == _NO_ID, NOTHING_ALLOWED, picked)
    tl.store(picked_ptr + row, tl.where(is_nan, IS_NAN, picked).to(tl.int64))


def takes(logits: torch.Tensor, bitmask: torch.Tensor) -> bool:
    """Tell whether this version computes these."""
    return (
        logits.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and bitmask.dtype is torch.int32
        and bitmask.device == logits.device
        and logits.shape[-1] > 0
    )


def masked_argmax(logits: torch.Tensor, bitmask: torch.Tensor) -> torch.Tensor:
    """See `sureact_kernels.masked_argmax`. Waits for the GPU, to raise; `masked_argmax_unchecked` does not."""
    picked = masked_argmax_unchecked(logits, bitmask)
    check_picked("masked_argmax", picked)
    return picked


def masked_argmax_unchecked(
    logits: torch.Tensor,
    bitmask: torch.Tensor,
    seen: torch.Tensor | None = None,
    penalties: torch.Tensor | None = None,
) -> torch.Tensor:
    """See `sureact_kernels.masked_argmax`; logits may be bfloat16 or float16, too."""
    num_rows, num_logits = logits.shape
    check_shape("masked_argmax", "bitmask", bitmask, (num_rows, -(-num_logits // 32)))
    picked = torch.empty(num_rows, dtype=torch.int64, device=logits.device)
    if num_rows == 0:
        return picked
    logits, bitmask = _with_rows_in_line(logits), _with_rows_in_line(bitmask)
    seen = None if seen is None else _with_rows_in_line(seen)
    num_blocks = triton.cdiv(num_logits, _BLOCK_N)
    bests = torch.empty(num_rows, num_blocks, dtype=torch.float32, device=logits.device)
    ids = torch.empty(num_rows, num_blocks, dtype=torch.int32, device=logits.device)
    _masked_argmax_kernel[(num_rows, num_blocks)](
        logits,
        bitmask,
        bitmask if seen is None else seen,
        bests if penalties is None else penalties.contiguous(),
        bests,
        ids,
        num_logits,
        num_blocks,
        logits.stride(0),
        bitmask.stride(0),
        bitmask.stride(0) if seen is None else seen.stride(0),
        BLOCK_N=_BLOCK_N,
        HAS_SEEN=seen is not None,
    )
    _merge_blocks_kernel[(num_rows,)](bests, ids, picked, num_blocks, BLOCK_BLOCKS=triton.next_power_of_2(num_blocks))
    return picked


def _with_rows_in_line(matrix: torch.Tensor) -> torch.Tensor:
    return matrix if matrix.stride(1) == 1 else matrix.contiguous()


AOT: tuple[AotCase, ...] = (
    *(
        AotCase(
            f"masked_argmax {dtype}{', seen ids penalized' if has_seen else ''}",
            _masked_argmax_kernel,
            {
                "logits_ptr": pointer,
                "bitmask_ptr": "*i32",
                "seen_ptr": "*i32",
                "penalties_ptr": "*fp32",
                "best_ptr": "*fp32",
                "id_ptr": "*i32",
                "num_logits": "i32",
                "num_blocks": "i32",
                "logits_stride_row": "i32",
                "bitmask_stride_row": "i32",
                "seen_stride_row": "i32",
                "BLOCK_N": "constexpr",
                "HAS_SEEN": "constexpr",
            },
            {"BLOCK_N": _BLOCK_N, "HAS_SEEN": has_seen},
        )
        for dtype, pointer in (("float32", "*fp32"), ("bfloat16", "*bf16"), ("float16", "*fp16"))
        for has_seen in (False, True)
    ),
    AotCase(
        "masked_argmax merge of 256 blocks",
        _merge_blocks_kernel,
        {
            "best_ptr": "*fp32",
            "id_ptr": "*i32",
            "picked_ptr": "*i64",
            "num_blocks": "i32",
            "BLOCK_BLOCKS": "constexpr",
        },
        {"BLOCK_BLOCKS": 256},
    ),
)
