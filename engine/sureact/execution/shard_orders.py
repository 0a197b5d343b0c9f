"""What the first process of a model tells the others to compute, as bytes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from sureact.layers.attention_metadata import AttentionMetadata

if TYPE_CHECKING:
    from sureact.scheduling.batch import Batch


class Order(IntEnum):
    """The first number of a message."""

    BLOCKS = 0
    """Run the blocks over `PassInputs`; if any row is picked, a `HEAD` order follows."""
    HEAD = 1
    """Run the head over the picked rows of the pass."""
    COPY = 2
    """Copy cache blocks: pairs of a source and a target."""
    CLEAR = 3
    """Zero cache blocks."""
    END = 4


class Wanted(IntEnum):
    """The second number of a `HEAD` order."""

    NOTHING = 0
    """The pass failed."""
    LIKELIEST = 1
    """The likeliest allowed token of each row; the rest of the message is its masks."""
    LOGITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PassInputs:
    """What the blocks need to know of a pass."""

    token_ids: Sequence[int]
    positions: Sequence[int]
    """Index of each token in its sequence."""
    slots: Sequence[int]
    """Cache slot of each token."""
    query_lens: Sequence[int]
    """Tokens per sequence in this pass."""
    context_lens: Sequence[int]
    """Tokens per sequence after it."""
    block_tables: Sequence[Sequence[int]]
    """Blocks of each sequence, rows of one length."""
    picked_rows: Sequence[int]
    """The tokens after which one is picked."""
    is_invariant: bool

    @classmethod
    def of(cls, batch: Batch, *, block_size: int, is_strict: bool) -> Self:
        """Describe a batch."""
        positions: list[int] = []
        slots: list[int] = []
        picked_rows: list[int] = []
        tables: list[list[int]] = []
        for entry in batch.entries:
            table = entry.request.sequence.block_table[: -(-(entry.start + entry.num_rows) // block_size)]
            tables.append(table)
            stretch = range(entry.start, entry.start + entry.num_rows)
            positions += stretch
            slots += [table[position // block_size] * block_size + position % block_size for position in stretch]
            picked_rows += range(len(positions) - entry.num_picks, len(positions))
        width = max(map(len, tables))
        return cls(
            token_ids=[token_id for entry in batch.entries for token_id in entry.token_ids],
            positions=positions,
            slots=slots,
            query_lens=[entry.num_rows for entry in batch.entries],
            context_lens=[entry.start + entry.num_rows for entry in batch.entries],
            block_tables=[table + table[:1] * (width - len(table)) for table in tables],
            picked_rows=picked_rows,
            is_invariant=is_strict or batch.is_decode,
        )

    def pack(self) -> bytes:
        """Write an order for this pass: one row of int64."""
        sizes = len(self.token_ids), len(self.query_lens), len(self.picked_rows), int(self.is_invariant)
        numbers = (self.token_ids, self.positions, self.slots, self.query_lens, self.context_lens, self.picked_rows)
        return np.fromiter(
            itertools.chain((Order.BLOCKS, *sizes), *numbers, *self.block_tables), dtype=np.int64
        ).tobytes()

    @classmethod
    def unpack(cls, numbers: list[int]) -> Self:
        """Read what `pack` wrote, without the order itself."""
        num_tokens, num_seqs, num_picks, is_invariant = numbers[:4]
        rest = iter(numbers[4:])

        def take(count: int) -> list[int]:
            return list(itertools.islice(rest, count))

        token_ids, positions, slots = take(num_tokens), take(num_tokens), take(num_tokens)
        query_lens, context_lens, picked_rows = take(num_seqs), take(num_seqs), take(num_picks)
        tables = np.array(list(rest), dtype=np.int64).reshape(num_seqs, -1).tolist()
        return cls(
            token_ids=token_ids,
            positions=positions,
            slots=slots,
            query_lens=query_lens,
            context_lens=context_lens,
            block_tables=tables,
            picked_rows=picked_rows,
            is_invariant=bool(is_invariant),
        )

    def metadata(self, device: torch.device) -> AttentionMetadata:
        """Return what the layers take."""
        return AttentionMetadata(
            positions=torch.tensor(self.positions, device=device),
            slot_mapping=torch.tensor(self.slots, device=device),
            block_tables=torch.tensor(self.block_tables, device=device),
            context_lens=tuple(self.context_lens),
            query_lens=tuple(self.query_lens),
            is_invariant=self.is_invariant,
        )


def head_order(wanted: Wanted, masks: torch.Tensor | None = None) -> bytes:
    """Write an order for the head; `masks` `[num_rows, words]`, int32, on the host, where the likeliest are wanted."""
    order = np.array([Order.HEAD, wanted], dtype=np.int64).tobytes()
    return order if masks is None else order + masks.contiguous().numpy().tobytes()


def read_head_order(message: bytes, num_rows: int) -> tuple[Wanted, torch.Tensor | None]:
    """Read what `head_order` wrote for a pass with `num_rows` picked rows."""
    order, wanted = np.frombuffer(message, dtype=np.int64, count=2)
    assert order == Order.HEAD, "behind the blocks comes the head"
    masks = np.frombuffer(message, dtype=np.int32, offset=16).reshape(num_rows, -1)
    return Wanted(wanted), torch.from_numpy(masks.copy()) if wanted == Wanted.LIKELIEST else None


def block_order(order: Order, blocks: Sequence[int]) -> bytes:
    """Write an order for cache blocks."""
    return np.array([order, *blocks], dtype=np.int64).tobytes()


def read_numbers(message: bytes) -> tuple[Order, list[int]]:
    """Read any order but one for the head."""
    order, *numbers = np.frombuffer(message, dtype=np.int64).tolist()
    return Order(order), numbers
