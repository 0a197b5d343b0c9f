"""Makes of the tokens that a step picked what the next step computes."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from sureact_kernels.arguments import check_dtype, check_shape
from sureact_kernels.dispatch import version_on_gpu
from sureact_kernels.stop_match import stop_match


@dataclass(frozen=True, slots=True, eq=False)
class DecodeRows:
    """The rows of decoding steps on the device, of which each step takes the first ones."""

    token_ids: torch.Tensor
    """`[max_rows]`, int64: the token that a step computes."""
    positions: torch.Tensor
    """`[max_rows]`, int64: its index in the sequence; 0 where a row is idle."""
    context_lens: torch.Tensor
    """`[max_rows]`, int32: positions + 1."""
    slots: torch.Tensor
    """`[max_rows]`, int64: where its key and value go; the dummy slot where a row is idle."""
    is_running: torch.Tensor
    """`[max_rows]`, int32: 0 where a row is idle."""
    block_tables: torch.Tensor
    """`[max_rows, max_blocks]`, int64."""
    recent: torch.Tensor
    """`[max_rows, max_stop_len]`, int32: the last generated ids, the newest at the right."""
    num_generated: torch.Tensor
    """`[max_rows]`, int32."""
    stops: torch.Tensor
    """`[num_stops, max_stop_len]`, int32, as `stop_match` takes them."""
    stops_of_row: torch.Tensor
    """`[max_rows, 2]`, int32, as `stop_match` takes them."""
    seen: torch.Tensor
    """`[max_rows, ceil(num_logits / 32)]`, int32: a bit for each id of a row's text."""
    results: torch.Tensor
    """`[2, max_rows]`, int64: what was picked, and 1 where that ended a stop."""


def advance_rows(picked: torch.Tensor, rows: DecodeRows, *, block_size: int, dummy_slot: int) -> None:
    """Add a picked token to each of the first rows, in place.

        stopped = recent + picked ends in one of the row's stops
        running = running and not stopped and picked >= 0 and position is not the last that the row's table holds
        token, position = picked, position + 1 where running; some id, 0 elsewhere
        slot = block_table[position / block_size] * block_size + position mod block_size, the dummy slot where not

    A row at the last position of its table ends, since the next has no block: nothing is read beside the table.

    Args:
        picked: `[num_rows]`, int64, from `masked_argmax_unchecked`; ids below 0 are faults and end their row.
        rows: at least `num_rows` of them.
        block_size: tokens per block of the cache.
        dummy_slot: where rows write that do not run.

    Raises:
        KernelInputError: `picked` has more rows than there are, or a tensor has another shape or dtype than it must.
    """
    _check(picked, rows)
    tensors = [getattr(rows, field.name) for field in fields(rows)]
    version = version_on_gpu("advance_rows", picked, *tensors)
    if version is not None:
        version.advance_rows(picked, rows, block_size=block_size, dummy_slot=dummy_slot)
    else:
        advance_rows_in_torch(picked, rows, block_size=block_size, dummy_slot=dummy_slot)


def advance_rows_in_torch(picked: torch.Tensor, rows: DecodeRows, *, block_size: int, dummy_slot: int) -> None:
    """Compute `advance_rows` as some twenty operations of torch: the reference."""
    num_rows = len(picked)
    recent = rows.recent[:num_rows]
    recent.copy_(torch.cat((recent[:, 1:], picked.to(torch.int32).unsqueeze(1)), 1))
    num_generated = rows.num_generated[:num_rows]
    num_generated += 1
    has_stopped = stop_match(recent, num_generated, rows.stops, rows.stops_of_row[:num_rows]) >= 0
    rows.results[0, :num_rows] = picked
    rows.results[1, :num_rows] = has_stopped
    positions = rows.positions[:num_rows] + 1
    has_place = positions < rows.block_tables.shape[1] * block_size
    is_running = (rows.is_running[:num_rows] != 0) & ~has_stopped & (picked >= 0) & has_place
    rows.is_running[:num_rows] = is_running
    token_ids = picked.clamp(min=0)
    rows.token_ids[:num_rows] = token_ids
    positions = torch.where(is_running, positions, 0)
    rows.positions[:num_rows] = positions
    rows.context_lens[:num_rows] = positions + 1
    blocks = rows.block_tables[:num_rows].gather(1, (positions // block_size).unsqueeze(1)).squeeze(1)
    rows.slots[:num_rows] = torch.where(is_running, blocks * block_size + positions % block_size, dummy_slot)
    words = (token_ids // 32).unsqueeze(1)
    bits = torch.ones_like(num_generated) << (token_ids % 32).to(torch.int32)
    seen = rows.seen[:num_rows]
    seen.scatter_(1, words, seen.gather(1, words) | bits.unsqueeze(1))


def _check(picked: torch.Tensor, rows: DecodeRows) -> None:
    max_rows, max_stop_len = rows.recent.shape
    shapes: dict[str, tuple[int | None, ...]] = {
        "block_tables": (max_rows, None),
        "recent": (max_rows, max_stop_len),
        "stops": (None, max_stop_len),
        "stops_of_row": (max_rows, 2),
        "seen": (max_rows, None),
        "results": (2, max_rows),
    }
    wide = {"token_ids", "positions", "slots", "block_tables", "results"}
    check_shape("advance_rows", "picked", picked, (None,))
    check_dtype("advance_rows", "picked", picked, (torch.int64,))
    for field in fields(rows):
        tensor = getattr(rows, field.name)
        check_shape("advance_rows", field.name, tensor, shapes.get(field.name, (max_rows,)))
        check_dtype("advance_rows", field.name, tensor, (torch.int64 if field.name in wide else torch.int32,))
    check_shape("advance_rows", "rows", rows.token_ids[: len(picked)], (len(picked),))
