"""How the queries of one pass are cut for attention: which blocks are read, which rows go together, what is hidden.

Made once per pass, since all layers share it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from sureact_kernels.errors import KernelInputError

ROW_MULTIPLE = 4
"""float32 batched products agree bit for bit between row counts that are multiples of this."""

QUERY_TILE = 32
"""Queries of one sequence handled at once: enough rows for the products to run at full speed, few enough for their
scores to stay in the cache."""

MOST_QUERIES_TOGETHER = 16
"""Sequences with at most so many queries share their products; longer stretches fill products of their own."""

SHORT_TILE_ROWS = 16
"""Query heads in a tile of a GPU kernel where the keys are read for few queries: the least that tensor cores take."""

LONG_TILE_ROWS = 32
"""Query heads in a tile of a GPU kernel for a prompt. From 64 on, Triton would use other instructions on Hopper than
for 16, whose sums may differ."""

_MOST_TOKENS_GATHERED = 1 << 15
"""Cached tokens that sequences read together at most, so that their float32 copies stay small."""


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """The same number of queries of each of some sequences, which share one product."""

    rows: slice | torch.Tensor
    """Which rows of `q` they are, `[num_seqs * num_queries]`; with padding, some row again."""
    num_queries: int
    """Per sequence, padding included."""
    num_blocks: int
    """Blocks per sequence that any of them sees."""
    hidden: torch.Tensor
    """`[num_seqs, num_last_blocks, 1, num_rows or 1, block_size]`, float32: what the scores of the last blocks get
    added, 0 or -inf; all see all of the blocks before."""
    kept: torch.Tensor | None
    """Which of `rows` are no padding; None keeps all."""

    @property
    def targets(self) -> slice | torch.Tensor:
        """The rows of the output that the kept rows belong to."""
        return self.rows if self.kept is None or isinstance(self.rows, slice) else self.rows[self.kept]


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """Sequences whose blocks are read together."""

    blocks: slice | torch.Tensor
    """Which blocks of the cache, `[num_seqs * num_blocks]`."""
    num_seqs: int
    tiles: tuple[Tile, ...]


class QueryTiles(NamedTuple):
    """Stretches of queries, each handled by one program of a GPU kernel per key head."""

    tiles: torch.Tensor
    """`[num_tiles, 5]`, int32, on the device of the block tables. Of each: its first row of `q`, its queries, its
    sequence, how many tokens before the end of the sequence it begins, and how many queries the tiles before it have.
    """
    num_queries: int
    most_queries: int
    """Of one tile."""
    most_tokens: int
    """The longest context of a tile's sequence; 0 without tiles."""


@dataclass(frozen=True, eq=False)
class AttentionPlan:
    """Where the queries of one pass stand, and how the reference cuts them into products."""

    block_tables: torch.Tensor
    """`[num_seqs, max_blocks]`, int64, contiguous."""
    first_rows: torch.Tensor
    """`[num_seqs + 1]`, int64, on the CPU: where the queries of each sequence begin, and their number."""
    context_lens: torch.Tensor
    """`[num_seqs]`, int64, on the CPU: tokens per sequence including its queries."""
    block_size: int
    group: int
    """Query heads per key head."""
    lens_on_device: torch.Tensor | None = None
    """`[num_seqs]`, int32: the true lengths, which may change from launch to launch; then `context_lens` says how long
    each may become. Only kernels that read lengths from the device follow them."""

    @cached_property
    def num_tokens(self) -> int:
        """Queries of all sequences."""
        return int(self.first_rows[-1])

    @cached_property
    def parts(self) -> tuple[Gathered, ...]:
        """The products. A query's result does not depend on the cut: the order of its sums is the same in any."""
        build = _Builder(self.block_size, self.group, self.block_tables.device)
        return tuple(
            build.together(some) if len(some) > 1 else build.alone(some[0])
            for some in _joined(self._stretches(), self.block_size)
        )

    @cached_property
    def device_context_lens(self) -> torch.Tensor:
        """`context_lens` beside the tables, int32. Kernels read it, so that a captured graph follows its new values.

        Like the tiles it is copied when first asked for, which must not be while a graph is captured.
        """
        if self.lens_on_device is not None:
            return self.lens_on_device
        return self.context_lens.to(self.block_tables.device, torch.int32)

    @cached_property
    def short_tiles(self) -> QueryTiles:
        """Of sequences with `MOST_QUERIES_TOGETHER` queries or fewer, in tiles of `SHORT_TILE_ROWS` rows or fewer."""
        return self._tiles(self._queries_in(SHORT_TILE_ROWS), is_short=True)

    @cached_property
    def long_tiles(self) -> QueryTiles:
        """The queries of the other sequences; a tile is at most `LONG_TILE_ROWS` rows, or 1 query."""
        return self._tiles(self._queries_in(LONG_TILE_ROWS), is_short=False)

    def _queries_in(self, num_rows: int) -> int:
        # The heads of a query stay together, also where they are more rows than that.
        return max(1, num_rows // self.group)

    def _tiles(self, most_queries: int, *, is_short: bool) -> QueryTiles:
        starts, context_lens = self.first_rows.tolist(), self.context_lens.tolist()
        tiles: list[tuple[int, int, int, int, int]] = []
        num_queries = most_tokens = 0
        for sequence, (start, end) in enumerate(itertools.pairwise(starts)):
            if (end - start <= MOST_QUERIES_TOGETHER) != is_short:
                continue
            most_tokens = max(most_tokens, context_lens[sequence])
            for row in range(start, end, most_queries):
                tiles.append((row, min(most_queries, end - row), sequence, end - row, num_queries))
                num_queries += tiles[-1][1]
        table = torch.tensor(tiles, dtype=torch.int32).view(-1, 5).to(self.block_tables.device)
        return QueryTiles(table, num_queries, max((tile[1] for tile in tiles), default=0), most_tokens)

    def _stretches(self) -> list[_Stretch]:
        starts = self.first_rows.tolist()
        return [
            _Stretch(start, end - start, context_len, table[: -(-context_len // self.block_size)])
            for start, end, context_len, table in zip(
                starts[:-1], starts[1:], self.context_lens.tolist(), self.block_tables.tolist(), strict=True
            )
        ]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The queries of one sequence."""

    first_row: int
    query_len: int
    context_len: int
    table: list[int]


def plan_attention(
    block_tables: torch.Tensor,
    query_lens: Sequence[int],
    context_lens: Sequence[int],
    *,
    block_size: int,
    group: int,
) -> AttentionPlan:
    """Describe the queries of a pass to `paged_attention`.

    Args:
        block_tables: `[num_seqs, max_blocks]`, int64; entries past a sequence's end may be any valid block.
        query_lens: queries per sequence, at least 1: its last tokens.
        context_lens: tokens per sequence including the queries, at most max_blocks * block_size.
        block_size: tokens per block of the cache.
        group: query heads per key head.

    Raises:
        KernelInputError: the lengths do not fit each other or the tables.
    """
    num_seqs, max_blocks = block_tables.shape
    if not len(query_lens) == len(context_lens) == num_seqs:
        raise KernelInputError(
            f"plan_attention: {len(query_lens)} query_lens and {len(context_lens)} context_lens are given; "
            f"block_tables has {num_seqs} rows."
        )
    for query_len, context_len in zip(query_lens, context_lens, strict=True):
        if not 1 <= query_len <= context_len <= max_blocks * block_size:
            raise KernelInputError(
                f"plan_attention: a sequence has {query_len} queries of {context_len} tokens; it must have at least "
                f"one and at most its tokens, and its table holds {max_blocks * block_size}."
            )
    first_rows = torch.tensor([0, *itertools.accumulate(query_lens)])
    return AttentionPlan(block_tables.contiguous(), first_rows, torch.tensor(context_lens), block_size, group)


def plan_decoding(
    block_tables: torch.Tensor, context_lens: torch.Tensor, *, most_tokens: int, block_size: int, group: int
) -> AttentionPlan:
    """Describe one query per sequence, the last, where only the device knows the lengths: a step that is recorded once.

    Args:
        block_tables: `[num_seqs, max_blocks]`, int64, contiguous; read at each launch.
        context_lens: `[num_seqs]`, int32, beside the tables; read at each launch, each from 1 to `most_tokens`.
        most_tokens: the longest context that a launch may meet.
        block_size: tokens per block of the cache.
        group: query heads per key head.
    """
    num_seqs = len(block_tables)
    plan = AttentionPlan(
        block_tables,
        torch.arange(num_seqs + 1),
        torch.full((num_seqs,), most_tokens),
        block_size,
        group,
        lens_on_device=context_lens,
    )
    _ = plan.short_tiles, plan.long_tiles  # copied to the device now, since nothing may be while a step is recorded
    return plan


def _joined(stretches: list[_Stretch], block_size: int) -> Iterator[list[_Stretch]]:
    """Group short stretches of about the same number of queries and blocks: padding costs at most twice the work."""
    by_size: dict[tuple[int, int], list[_Stretch]] = {}
    for stretch in stretches:
        if stretch.query_len > MOST_QUERIES_TOGETHER:
            yield [stretch]
        else:
            size = (_query_class(stretch.query_len), (len(stretch.table) - 1).bit_length())
            by_size.setdefault(size, []).append(stretch)
    for (_, block_class), some in by_size.items():
        most = max(1, _MOST_TOKENS_GATHERED // (block_size << block_class))
        yield from (some[start : start + most] for start in range(0, len(some), most))


def _query_class(query_len: int) -> int:
    """Tell apart one query, a short draft and more."""
    return 0 if query_len == 1 else 1 if query_len <= ROW_MULTIPLE else 2


@dataclass(frozen=True, slots=True)
class _Builder:
    """Turns stretches into tiles."""

    block_size: int
    group: int
    device: torch.device

    def alone(self, stretch: _Stretch) -> Gathered:
        """One sequence, its queries tile by tile."""
        tiles: list[Tile] = []
        for start in range(0, stretch.query_len, QUERY_TILE):
            num_queries = min(QUERY_TILE, stretch.query_len - start)
            first = stretch.context_len - stretch.query_len + start
            last_positions = np.arange(first, first + num_queries)[None]
            rows = slice(stretch.first_row + start, stretch.first_row + start + num_queries)
            tiles.append(self._tile(rows, last_positions, None))
        return Gathered(self._blocks(stretch.table), 1, tuple(tiles))

    def together(self, stretches: list[_Stretch]) -> Gathered:
        """Several sequences, each padded to the queries of the longest with its last one."""
        num_queries = max(stretch.query_len for stretch in stretches)
        num_blocks = max(len(stretch.table) for stretch in stretches)
        lens = np.array([stretch.query_len for stretch in stretches])[:, None]
        firsts = np.array([stretch.first_row for stretch in stretches])[:, None]
        contexts = np.array([stretch.context_len for stretch in stretches])[:, None]
        index = np.minimum(np.arange(num_queries), lens - 1)
        rows = (firsts + index).ravel()
        is_kept = (np.arange(num_queries) < lens).ravel()
        tile = self._tile(
            self._index(rows), contexts - lens + index, None if is_kept.all() else self._tensor(is_kept.nonzero()[0])
        )
        tables = [s.table + s.table[:1] * (num_blocks - len(s.table)) for s in stretches]
        return Gathered(self._blocks([block for table in tables for block in table]), len(stretches), (tile,))

    def _tile(self, rows: slice | torch.Tensor, last_positions: np.ndarray, kept: torch.Tensor | None) -> Tile:
        """Make a tile of queries that each see the tokens up to `last_positions` `[num_seqs, num_queries]`."""
        num_seqs, num_queries = last_positions.shape
        num_blocks = int(last_positions.max()) // self.block_size + 1
        first_block = int(last_positions.min()) // self.block_size
        # Every row of a key head is a query and one of its heads; padding rows see what the last query does.
        by_row = last_positions
        if num_queries > 1:
            by_row = last_positions.repeat(self.group, axis=1)
            missing = -by_row.shape[1] % ROW_MULTIPLE
            by_row = np.concatenate((by_row, by_row[:, -1:].repeat(missing, axis=1)), axis=1)
        positions = np.arange(first_block * self.block_size, num_blocks * self.block_size)
        is_hidden = positions.reshape(-1, 1, 1, self.block_size) > by_row.reshape(num_seqs, 1, 1, -1, 1)
        hidden = np.where(is_hidden, np.float32(-np.inf), np.float32(0))
        return Tile(rows, num_queries, num_blocks, self._tensor(hidden), kept)

    def _blocks(self, blocks: list[int]) -> slice | torch.Tensor:
        return self._index(np.array(blocks))

    def _index(self, index: np.ndarray) -> slice | torch.Tensor:
        """Return a slice where the numbers follow each other: it copies nothing."""
        first = int(index[0])
        if np.array_equal(index, np.arange(first, first + len(index))):
            return slice(first, first + len(index))
        return self._tensor(index)

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device)
