# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
"""`stop_match` in Triton: one program per row compares its last tokens with its stops, a few stops at a time."""

import torch
import triton
import triton.language as tl

from sureact_kernels.triton.aot import AotCase

_PADDING = tl.constexpr(-1)
_NO_STOP = tl.constexpr(2**31 - 1)
_MOST_STOPS = 16
_MOST_TOKENS = 512
"""Stops, and tokens of them, that are compared at once by one warp."""


@triton.jit
def first_stop(
    recent, length, stops_ptr, stops_of_row_ptr, num_stops, max_stop_len, BLOCK_S: tl.constexpr, BLOCK_L: tl.constexpr
):  # fmt: skip
    """Return the first stop of one row that ends its tokens `recent` `[BLOCK_L]`, padded at the right, or -1.

    Pointers: stops `[num_stops, max_stop_len]`, stops_of_row `[2]`, those of the row.
    """
    places = tl.arange(0, BLOCK_L)
    is_place = places < max_stop_len
    first = tl.maximum(tl.load(stops_of_row_ptr), 0)
    end = tl.minimum(tl.load(stops_of_row_ptr + 1), num_stops)
    found = tl.full((), _NO_STOP, tl.int32)
    for start in range(first, end, BLOCK_S):
        ids = start + tl.arange(0, BLOCK_S)
        is_there = (ids < end)[:, None] & is_place[None, :]
        offsets = ids.to(tl.int64)[:, None] * max_stop_len + places[None, :]
        stops = tl.load(stops_ptr + offsets, mask=is_there, other=_PADDING)
        is_token = stops != _PADDING
        sizes = tl.sum(is_token.to(tl.int32), 1)
        num_wrong = tl.sum((is_token & (stops != recent[None, :])).to(tl.int32), 1)
        matches = (num_wrong == 0) & (sizes > 0) & (sizes <= length)
        found = tl.minimum(found, tl.min(tl.where(matches, ids, _NO_STOP), 0))
    return tl.where(found == _NO_STOP, -1, found)


@triton.jit
def _stop_match_kernel(
    recent_ptr,
    lengths_ptr,
    stops_ptr,
    stops_of_row_ptr,
    out_ptr,
    num_stops,
    max_stop_len,
    BLOCK_S: tl.constexpr,
    BLOCK_L: tl.constexpr,
):
    """Find the first stop of one row that matches.

    Pointers: recent `[num_rows, max_stop_len]`, lengths `[num_rows]`, stops `[num_stops, max_stop_len]`, stops_of_row
    `[num_rows, 2]`, out `[num_rows]`, all int32 and contiguous.
    """
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK_L)
    recent = tl.load(recent_ptr + row * max_stop_len + places, mask=places < max_stop_len, other=_PADDING)
    length = tl.load(lengths_ptr + row)
    stop = first_stop(
        recent, length, stops_ptr, stops_of_row_ptr + row * 2, num_stops, max_stop_len, BLOCK_S, BLOCK_L
    )  # fmt: skip
    tl.store(out_ptr + row, stop)


def blocks_of(max_stop_len: int) -> dict[str, int]:
    """Return how many stops, and tokens of them, are compared at once."""
    block_l = triton.next_power_of_2(max(max_stop_len, 1))
    return {"BLOCK_S": max(1, min(_MOST_STOPS, _MOST_TOKENS // block_l)), "BLOCK_L": block_l}


def takes(*tensors: torch.Tensor) -> bool:
    """Tell whether this version computes these, all on one device."""
    return all(tensor.dtype is torch.int32 and tensor.device == tensors[0].device for tensor in tensors)


def stop_match(
    recent: torch.Tensor, lengths: torch.Tensor, stops: torch.Tensor, stops_of_row: torch.Tensor
) -> torch.Tensor:
    """See `sureact_kernels.stop_match`, which checks the shapes."""
    num_rows, max_stop_len = recent.shape
    out = torch.empty(num_rows, dtype=torch.int32, device=recent.device)
    if num_rows == 0:
        return out
    blocks = blocks_of(max_stop_len)
    _stop_match_kernel[(num_rows,)](
        recent.contiguous(),
        lengths.contiguous(),
        stops.contiguous(),
        stops_of_row.contiguous(),
        out,
        len(stops),
        max_stop_len,
        **blocks,
        num_warps=1,
    )
    return out


AOT: tuple[AotCase, ...] = (
    AotCase(
        "stop_match 32 tokens",
        _stop_match_kernel,
        {
            "recent_ptr": "*i32",
            "lengths_ptr": "*i32",
            "stops_ptr": "*i32",
            "stops_of_row_ptr": "*i32",
            "out_ptr": "*i32",
            "num_stops": "i32",
            "max_stop_len": "i32",
            "BLOCK_S": "constexpr",
            "BLOCK_L": "constexpr",
        },
        {"BLOCK_S": _MOST_STOPS, "BLOCK_L": 32},
        num_warps=1,
    ),
)
