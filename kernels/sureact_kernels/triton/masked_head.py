# pyright: basic
# Triton declares neither what its decorators add to a kernel nor what its ranges yield:
# pyright: reportGeneralTypeIssues=false, reportCallIssue=false, reportArgumentType=false
"""`masked_head` in Triton: 32 rows of the head for each word of the mask that is not 0, with the sums of `linear`."""

import torch
import triton
import triton.language as tl

from sureact_kernels.arguments import check_shape
from sureact_kernels.linear import LinearWeight
from sureact_kernels.triton.aot import AotCase
from sureact_kernels.triton.matrix_operand import MatrixOperand, takes_operands
from sureact_kernels.triton.product_cases import FORMS, Form
from sureact_kernels.triton.product_shapes import MOST_SMALL_ROWS, ROWS_OF_A_TILE, product_shape
from sureact_kernels.triton.product_tile import finished, split_sums
from sureact_kernels.triton.small_m_product import NUM_STAGES, NUM_WARPS

_MOST_TILES = {32: 2, 16: MOST_SMALL_ROWS // ROWS_OF_A_TILE, 8: 2, 4: MOST_SMALL_ROWS // ROWS_OF_A_TILE}
"""By bits of a weight: tiles of rows of one program, as many as do not run out of registers. It changes no bits."""


# Compiled once for any number of rows of as many tiles, a single one included.
@triton.jit(do_not_specialize=["num_rows"])
def _masked_head_kernel(
    x_ptr, weight_ptr, scales_ptr, bitmask_ptr, out_ptr, num_rows, num_logits, hidden_size, x_stride_row,
    weight_stride_logit, bitmask_stride_row, split_size, FORM: tl.constexpr, GROUP_SIZE: tl.constexpr,
    IS_SPLIT: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr, TILE_M: tl.constexpr,
    NUM_TILES: tl.constexpr,
):  # fmt: skip
    """Compute the `BLOCK_N` logits of two words of the mask for some rows; none where both are 0 in all of them.

    Pointers: x `[num_rows, hidden_size]`, weight and scales as in `MatrixOperand`, bitmask `[num_rows, words]`, out
    `[num_rows, num_logits]` float32. Groups of rows lie side by side in the grid, so that they share the weight in L2.
    """
    first_row = tl.program_id(0) * TILE_M * NUM_TILES
    ids = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    is_needed = tl.zeros((BLOCK_N,), tl.int32)
    for tile in tl.static_range(NUM_TILES):
        words = _words_of(bitmask_ptr, bitmask_stride_row, first_row + tile * TILE_M, ids, num_rows, num_logits, TILE_M)
        is_needed = tl.maximum(is_needed, tl.max((words != 0).to(tl.int32), 1))
    if tl.max(is_needed, 0) == 0:
        for tile in tl.static_range(NUM_TILES):
            nothing = tl.full((BLOCK_N, TILE_M), float("-inf"), tl.float32)
            _store(out_ptr, nothing, first_row + tile * TILE_M, ids, num_rows, num_logits, TILE_M)
        return
    # The product has the width that `linear` gives it, but a word that nobody needs is not read: its neighbor's is.
    outs = tl.where(is_needed > 0, ids, ids ^ 32)
    outs = tl.minimum(outs, num_logits - 1).to(tl.int64)
    sums = split_sums(
        x_ptr, weight_ptr, scales_ptr, x_stride_row, weight_stride_logit, first_row, outs, 0, num_rows, num_logits,
        hidden_size, split_size, FORM, GROUP_SIZE, BLOCK_N, BLOCK_K, EVEN_K, TILE_M, NUM_TILES,
    )  # fmt: skip
    if IS_SPLIT:
        for first in range(split_size, hidden_size, split_size):
            more = split_sums(
                x_ptr, weight_ptr, scales_ptr, x_stride_row, weight_stride_logit, first_row, outs, first, num_rows,
                num_logits, hidden_size, split_size, FORM, GROUP_SIZE, BLOCK_N, BLOCK_K, EVEN_K, TILE_M, NUM_TILES,
            )  # fmt: skip
            added = ()
            for tile in tl.static_range(NUM_TILES):
                added = added + (sums[tile] + more[tile],)  # noqa: RUF005  what Triton understands
            sums = added
    for tile in tl.static_range(NUM_TILES):
        logits = finished(sums[tile], scales_ptr, None, outs[:, None], FORM, False)
        logits = logits.to(x_ptr.dtype.element_ty).to(tl.float32)
        words = _words_of(bitmask_ptr, bitmask_stride_row, first_row + tile * TILE_M, ids, num_rows, num_logits, TILE_M)
        logits = tl.where(words != 0, logits, float("-inf"))
        _store(out_ptr, logits, first_row + tile * TILE_M, ids, num_rows, num_logits, TILE_M)


@triton.jit
def _words_of(bitmask_ptr, bitmask_stride_row, first_row, ids, num_rows, num_logits, TILE_M: tl.constexpr):
    """Return the word of each id and row, `[BLOCK_N, TILE_M]`; 0 for ids and rows that do not exist."""
    rows = first_row + tl.arange(0, TILE_M)
    mask = (ids < num_logits)[:, None] & (rows < num_rows)[None, :]
    word_ptrs = bitmask_ptr + rows[None, :].to(tl.int64) * bitmask_stride_row + (ids // 32)[:, None]
    return tl.load(word_ptrs, mask=mask, other=0)


@triton.jit
def _store(out_ptr, logits, first_row, ids, num_rows, num_logits, TILE_M: tl.constexpr):
    rows = first_row + tl.arange(0, TILE_M)
    mask = (ids < num_logits)[:, None] & (rows < num_rows)[None, :]
    tl.store(out_ptr + rows[None, :].to(tl.int64) * num_logits + ids[:, None], logits, mask=mask)


def takes(x: torch.Tensor, values: torch.Tensor, scales: torch.Tensor | None = None) -> bool:
    """Tell whether this version computes these: `x` and the tensors of a weight, as `linear` takes them."""
    return takes_operands(x, values, scales)


def masked_head(x: torch.Tensor, weight: LinearWeight, bitmask: torch.Tensor) -> torch.Tensor:
    """See `sureact_kernels.masked_head`; the mask may be on the host or on the device of `x`.

    All logits of a word that is not 0 are computed, -inf stands where it is 0. Never waits for the GPU; a mask on the
    host is copied beside it, for which it should be pinned and stay as it is until then.
    """
    matrix = MatrixOperand.of(weight)
    num_rows, hidden_size = x.shape
    num_logits = matrix.out_features
    check_shape("masked_head", "bitmask", bitmask, (num_rows, triton.cdiv(num_logits, 32)))
    out = torch.empty(num_rows, num_logits, dtype=torch.float32, device=x.device)
    if num_rows == 0:
        return out
    x = x if x.stride(1) == 1 else x.contiguous()
    bitmask = bitmask.to(x.device, non_blocking=True)
    bitmask = bitmask if bitmask.stride(1) == 1 else bitmask.contiguous()
    shape = product_shape(num_logits, hidden_size, matrix.bits)
    num_tiles = triton.next_power_of_2(triton.cdiv(min(num_rows, MOST_SMALL_ROWS), ROWS_OF_A_TILE))
    num_tiles = min(num_tiles, _MOST_TILES[matrix.bits])
    grid = (triton.cdiv(num_rows, num_tiles * ROWS_OF_A_TILE), triton.cdiv(num_logits, shape.block_n))
    _masked_head_kernel[grid](
        x, matrix.values, matrix.scales, bitmask, out, num_rows, num_logits, hidden_size, x.stride(0),
        matrix.values.stride(0), bitmask.stride(0), shape.split_size, FORM=matrix.form, GROUP_SIZE=matrix.group_size,
        IS_SPLIT=hidden_size > shape.split_size, BLOCK_N=shape.block_n, BLOCK_K=shape.block_k,
        EVEN_K=hidden_size % shape.block_k == 0, TILE_M=ROWS_OF_A_TILE, NUM_TILES=num_tiles, num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )  # fmt: skip
    return out


def _case(form: Form, num_tiles: int, num_logits: int, hidden_size: int) -> AotCase:
    """Return the kernel for a head of that size, for which its parts are those of `linear`."""
    shape = product_shape(num_logits, hidden_size, form.bits)
    types = {
        "x_ptr": form.x, "weight_ptr": form.values, "bitmask_ptr": "*i32", "out_ptr": "*fp32", "num_rows": "i32",
        "num_logits": "i32:16", "hidden_size": "i32:16", "x_stride_row": "i32:16", "weight_stride_logit": "i32:16",
        "bitmask_stride_row": "i32", "split_size": "i32:16",
    }  # fmt: skip
    constants = {
        "FORM": form.form, "GROUP_SIZE": form.group_size, "IS_SPLIT": hidden_size > shape.split_size,
        "BLOCK_N": shape.block_n, "BLOCK_K": shape.block_k, "EVEN_K": hidden_size % shape.block_k == 0,
        "TILE_M": ROWS_OF_A_TILE, "NUM_TILES": num_tiles,
    }  # fmt: skip
    if form.scales is None:
        constants["scales_ptr"] = None
    else:
        types["scales_ptr"] = form.scales
    signature = {name: types.get(name, "constexpr") for name in _masked_head_kernel.arg_names}
    name = f"masked_head {form.name} [{num_logits}, {hidden_size}] {num_tiles * ROWS_OF_A_TILE} rows"
    return AotCase(name, _masked_head_kernel, signature, constants, NUM_WARPS, NUM_STAGES)


AOT: tuple[AotCase, ...] = (
    *(_case(form, num_tiles, 151_936, 4096) for form in FORMS for num_tiles in (1, _MOST_TILES[form.bits])),
    _case(FORMS[0], _MOST_TILES[16], 4096, 4096),
)
