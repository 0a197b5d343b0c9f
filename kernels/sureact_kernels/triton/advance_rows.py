# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
"""`advance_rows` in Triton: one program per row, in place of some twenty small launches of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from sureact_kernels.triton.aot import AotCase
from sureact_kernels.triton.stop_match import blocks_of, first_stop

if TYPE_CHECKING:
    from sureact_kernels.advance_rows import DecodeRows

_PADDING = tl.constexpr(-1)


@triton.jit(do_not_specialize=["max_rows", "num_stops", "max_blocks", "num_words", "dummy_slot"])
def _advance_rows_kernel(
    picked_ptr, token_ids_ptr, positions_ptr, context_lens_ptr, slots_ptr, is_running_ptr, block_tables_ptr, recent_ptr,
    num_generated_ptr, stops_ptr, stops_of_row_ptr, seen_ptr, results_ptr,
    max_rows, num_stops, max_stop_len, max_blocks, num_words, dummy_slot,
    BLOCK_SIZE: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_L: tl.constexpr,
):  # fmt: skip
    """Advance one row; the pointers are the fields of `DecodeRows`, contiguous, of the shapes and dtypes said there."""
    row = tl.program_id(0).to(tl.int64)
    picked = tl.load(picked_ptr + row)
    places = tl.arange(0, BLOCK_L)
    is_place = places < max_stop_len
    recent_ptr += row * max_stop_len
    older = tl.load(recent_ptr + places + 1, mask=places + 1 < max_stop_len, other=_PADDING)
    recent = tl.where(places == max_stop_len - 1, picked.to(tl.int32), older)
    recent = tl.where(is_place, recent, _PADDING)
    # All places are read before one is written over.
    tl.debug_barrier()
    tl.store(recent_ptr + places, recent, mask=is_place)
    length = tl.load(num_generated_ptr + row) + 1
    tl.store(num_generated_ptr + row, length)
    stop = first_stop(
        recent, length, stops_ptr, stops_of_row_ptr + row * 2, num_stops, max_stop_len, BLOCK_S, BLOCK_L
    )  # fmt: skip
    tl.store(results_ptr + row, picked)
    tl.store(results_ptr + max_rows + row, (stop >= 0).to(tl.int64))
    position = tl.load(positions_ptr + row) + 1
    has_place = position < max_blocks * BLOCK_SIZE
    is_running = (tl.load(is_running_ptr + row) != 0) & (stop < 0) & (picked >= 0) & has_place
    tl.store(is_running_ptr + row, is_running.to(tl.int32))
    token_id = tl.maximum(picked, 0)
    tl.store(token_ids_ptr + row, token_id)
    position = tl.where(is_running, position, 0)
    tl.store(positions_ptr + row, position)
    tl.store(context_lens_ptr + row, (position + 1).to(tl.int32))
    block = tl.load(block_tables_ptr + row * max_blocks + position // BLOCK_SIZE)
    tl.store(slots_ptr + row, tl.where(is_running, block * BLOCK_SIZE + position % BLOCK_SIZE, dummy_slot))
    word_ptr = seen_ptr + row * num_words + token_id // 32
    bit = tl.full((), 1, tl.int32) << (token_id % 32).to(tl.int32)
    tl.store(word_ptr, tl.load(word_ptr) | bit)


def takes(*tensors: torch.Tensor) -> bool:
    """Tell whether this version computes these: contiguous, all on one device."""
    return all(tensor.is_contiguous() and tensor.device == tensors[0].device for tensor in tensors)


def advance_rows(picked: torch.Tensor, rows: DecodeRows, *, block_size: int, dummy_slot: int) -> None:
    """See `sureact_kernels.advance_rows`, which checks shapes and dtypes."""
    if len(picked) == 0:
        return
    max_rows, max_stop_len = rows.recent.shape
    _advance_rows_kernel[(len(picked),)](
        *(picked, rows.token_ids, rows.positions, rows.context_lens, rows.slots, rows.is_running, rows.block_tables),
        *(rows.recent, rows.num_generated, rows.stops, rows.stops_of_row, rows.seen, rows.results),
        *(max_rows, len(rows.stops), max_stop_len, rows.block_tables.shape[1], rows.seen.shape[1], dummy_slot),
        BLOCK_SIZE=block_size,
        **blocks_of(max_stop_len),
        num_warps=1,
    )


_WIDE = ("picked", "token_ids", "positions", "slots", "block_tables", "results")

AOT: tuple[AotCase, ...] = (
    AotCase(
        "advance_rows",
        _advance_rows_kernel,
        {
            name: "constexpr"
            if name.isupper()
            else "i32"
            if not name.endswith("_ptr")
            else "*i64"
            if name.removesuffix("_ptr") in _WIDE
            else "*i32"
            for name in _advance_rows_kernel.arg_names
        },
        {"BLOCK_SIZE": 128, **blocks_of(8)},
        num_warps=1,
    ),
)
