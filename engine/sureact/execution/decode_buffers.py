"""What decoding steps read and write on the device, at addresses that never change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from sureact_kernels.advance_rows import DecodeRows, advance_rows
from sureact_kernels.masked_argmax import check_picked, masked_argmax_unchecked
from sureact_kernels.stop_match import PADDING

MOST_STOP_LEN = 8
"""Tokens of a stop that the device looks for; longer ones are found by the host alone."""

_NUM_PLACES = 4
"""Of a row: token, position, slot, and 1 if it is in use."""

_STOPS_PER_ROW = 8
"""Room for stops, per row on average; what does not fit is found by the host alone."""


class DecodeRow(NamedTuple):
    """One token to compute, and what is needed to go on behind it."""

    token_id: int
    position: int
    """Its index in the sequence."""
    block_table: Sequence[int]
    """Blocks of the sequence; they reach as far as steps are run before the next load."""
    generated: Sequence[int] = ()
    """Ids generated so far, `token_id` the last of them; `MOST_STOP_LEN` from the end will do."""
    stops: tuple[tuple[int, ...], ...] = ()
    """Sequences of ids that end the text."""
    repetition_penalty: float = 1.0
    seen: np.ndarray | None = None
    """`[ceil(num_logits / 32)]`, int32: a bit for each id of the text, where there is a penalty."""


class PendingPicks:
    """The tokens that a step picks, on their way to the host; to be read before the step after the next is launched."""

    def __init__(self, results: torch.Tensor, is_there: torch.Event | None) -> None:
        self._results = results
        self._is_there = is_there

    def wait(self) -> list[int]:
        """Return the token of each row.

        Raises:
            KernelInputError: a logit is NaN, or a mask allows nothing.
        """
        picked = self._arrived()[0]
        check_picked("decode step", picked)
        return picked.tolist()

    def has_stopped(self) -> list[bool]:
        """Return of each row whether its token ended one of its stops; the device takes no further step of it."""
        return self._arrived()[1].ne(0).tolist()

    def _arrived(self) -> torch.Tensor:
        if self._is_there is not None:
            self._is_there.synchronize()
        return self._results


class DecodeBuffers:
    """Tokens, places and masks of up to `max_rows` rows. The host loads them once; then steps feed themselves.

    Rows that are not in use, or have met a stop, stand at position 0 and write into the dummy block.
    """

    def __init__(
        self,
        *,
        max_rows: int,
        max_blocks: int,
        block_size: int,
        dummy_block: int,
        num_logits: int,
        device: torch.device,
    ) -> None:
        """Reserve the memory.

        Args:
            max_rows: rows of a step.
            max_blocks: blocks of the longest sequence.
            block_size: tokens per block.
            dummy_block: a block that no sequence has.
            num_logits: ids that a mask speaks of.
            device: where the model is.
        """
        num_words = -(-num_logits // 32)
        self._device = device
        self._block_size, self._dummy_slot = block_size, dummy_block * block_size
        self._places = _Staged((max_rows, _NUM_PLACES), torch.int64, device)
        self._tables = _Staged((max_rows, max_blocks), torch.int64, device)
        self._texts = _Staged((max_rows, MOST_STOP_LEN + 3), torch.int32, device)
        self._stops = _Staged((max_rows * _STOPS_PER_ROW, MOST_STOP_LEN), torch.int32, device)
        self._masks = _Staged((max_rows, num_words), torch.int32, device)
        self._seen = _Staged((max_rows, num_words), torch.int32, device)
        self._penalties = _Staged((max_rows, 1), torch.float32, device)
        self._has_penalties = True  # the first load writes them
        self._mask_copies = torch.cuda.Stream(device) if device.type == "cuda" else None

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.rows = DecodeRows(
            token_ids=zeros(max_rows),
            positions=zeros(max_rows),
            context_lens=zeros(max_rows, dtype=torch.int32) + 1,
            slots=zeros(max_rows) + self._dummy_slot,
            is_running=zeros(max_rows, dtype=torch.int32),
            block_tables=self._tables.device,
            recent=zeros(max_rows, MOST_STOP_LEN, dtype=torch.int32),
            num_generated=zeros(max_rows, dtype=torch.int32),
            stops=self._stops.device,
            stops_of_row=zeros(max_rows, 2, dtype=torch.int32),
            seen=self._seen.device,
            results=zeros(2, max_rows),
        )
        # A step may be under way while the host reads what the one before it picked.
        self._arriving = [_on_host((2, max_rows), torch.int64, device) for _ in range(2)]
        self._num_sent = 0

    @property
    def max_rows(self) -> int:
        """Rows of a step at most."""
        return len(self.rows.token_ids)

    def load(self, rows: Sequence[DecodeRow], num_rows: int) -> None:
        """Write what the next step computes, padded to `num_rows`; steps that are under way are not disturbed."""
        places = self._places.writable()[:num_rows]
        places[:] = 0, 0, self._dummy_slot, 0
        for place, row in zip(places, rows, strict=False):
            block, offset = divmod(row.position, self._block_size)
            place[:] = row.token_id, row.position, row.block_table[block] * self._block_size + offset, 1
        self._tables.writable()[:num_rows] = self._dummy_slot // self._block_size
        self.load_tables(dict(enumerate(row.block_table for row in rows)), num_rows)
        on_device, to = self._places.send(num_rows), self.rows
        to.token_ids[:num_rows] = on_device[:, 0]
        to.positions[:num_rows] = on_device[:, 1]
        to.slots[:num_rows] = on_device[:, 2]
        to.is_running[:num_rows] = on_device[:, 3]
        to.context_lens[:num_rows] = on_device[:, 1] + 1
        self._load_penalties(rows, num_rows)

    def load_tables(self, tables: Mapping[int, Sequence[int]], num_rows: int) -> None:
        """Write block tables, by row, for steps that are launched after this; the other rows keep theirs."""
        host = self._tables.writable()
        for row, table in tables.items():
            host[row, : len(table)] = table
        self._tables.send(num_rows)

    def load_stops(self, rows: Sequence[DecodeRow], num_rows: int) -> None:
        """Write what ends each row's text, for steps that feed themselves."""
        texts, stops = self._texts.writable()[:num_rows], self._stops.writable()
        texts[:, :MOST_STOP_LEN] = PADDING
        texts[:, MOST_STOP_LEN:] = 0
        stops[:] = PADDING
        num_stops = 0
        for text, row in zip(texts, rows, strict=False):
            tail = row.generated[-MOST_STOP_LEN:]
            text[MOST_STOP_LEN - len(tail) : MOST_STOP_LEN] = tail
            fitting = [stop for stop in row.stops if len(stop) <= MOST_STOP_LEN][: len(stops) - num_stops]
            for stop in fitting:
                stops[num_stops, MOST_STOP_LEN - len(stop) :] = stop
                num_stops += 1
            text[MOST_STOP_LEN:] = len(row.generated), num_stops - len(fitting), num_stops
        on_device, to = self._texts.send(num_rows), self.rows
        to.recent[:num_rows] = on_device[:, :MOST_STOP_LEN]
        to.num_generated[:num_rows] = on_device[:, MOST_STOP_LEN]
        to.stops_of_row[:num_rows] = on_device[:, MOST_STOP_LEN + 1 :]
        self._stops.send(len(stops))

    def load_masks(self, masks: torch.Tensor, num_rows: int) -> None:
        """Write the ids that each row may pick; what is launched after this on the current stream sees them.

        Args:
            masks: `[len(rows), words]`, int32, on the host.
            num_rows: rows of the step; those beyond `masks` may pick anything.
        """
        host = self._masks.writable()[:num_rows]
        host[: len(masks)] = masks.numpy()
        host[len(masks) :] = -1
        if self._mask_copies is None:
            self._masks.send(num_rows)
            return
        # On a stream of their own they arrive while the blocks are still computed.
        with torch.cuda.stream(self._mask_copies):
            self._masks.send(num_rows)
            have_arrived = self._mask_copies.record_event()
        torch.cuda.current_stream(self._device).wait_event(have_arrived)

    def masks(self, num_rows: int) -> torch.Tensor:
        """The masks on the device, `[num_rows, words]`, int32."""
        return self._masks.device[:num_rows]

    def pick(self, logits: torch.Tensor) -> torch.Tensor:
        """Pick of `logits` `[num_rows, num_logits]`, float32, what the masks allow, after the penalties."""
        num_rows = len(logits)
        seen, penalties = self.rows.seen[:num_rows], self._penalties.device[:num_rows, 0]
        return masked_argmax_unchecked(logits, self.masks(num_rows), seen, penalties)

    def store(self, picked: torch.Tensor) -> None:
        """Keep the picked tokens `[num_rows]`, int64, for the host; ids below 0 are faults."""
        self.rows.results[0, : len(picked)] = picked
        self.rows.results[1, : len(picked)] = 0

    def feed(self, picked: torch.Tensor) -> None:
        """Keep the picked tokens for the host, and make them what the next step computes."""
        advance_rows(picked, self.rows, block_size=self._block_size, dummy_slot=self._dummy_slot)

    def fetch(self, num_rows: int) -> PendingPicks:
        """Start the way of the last step's tokens to the host."""
        arriving = self._arriving[self._num_sent % len(self._arriving)]
        self._num_sent += 1
        # Whole, since a copy of a part would have torch wait for the step.
        arriving.copy_(self.rows.results, non_blocking=True)
        on_cuda = self._device.type == "cuda"
        is_there = torch.cuda.current_stream(self._device).record_event() if on_cuda else None
        return PendingPicks(arriving[:, :num_rows], is_there)

    def _load_penalties(self, rows: Sequence[DecodeRow], num_rows: int) -> None:
        has_penalties = any(row.repetition_penalty != 1 for row in rows)
        if has_penalties or self._has_penalties:
            seen, penalties = self._seen.writable()[:num_rows], self._penalties.writable()
            penalties[:] = 1
            for index, row in enumerate(rows):
                penalties[index] = row.repetition_penalty
                seen[index] = 0 if row.seen is None else row.seen
            self._seen.send(num_rows)
            self._penalties.send(len(penalties))
        self._has_penalties = has_penalties


class _Staged:
    """A matrix on the device and the memory of the host that its rows come from."""

    def __init__(self, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> None:
        self._host = _on_host(shape, dtype, device)
        self._is_sent: torch.Event | None = None
        self.device = torch.zeros(shape, dtype=dtype, device=device)

    def writable(self) -> np.ndarray:
        """Return the memory of the host, once what was sent from it last has been read."""
        if self._is_sent is not None:
            self._is_sent.synchronize()
        return self._host.numpy()

    def send(self, num_rows: int) -> torch.Tensor:
        """Copy the first rows to the device on the current stream, without waiting, and return them there."""
        sent = self.device[:num_rows].copy_(self._host[:num_rows], non_blocking=True)
        if self.device.is_cuda:
            self._is_sent = torch.cuda.current_stream(self.device.device).record_event()
        return sent


def _on_host(shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return zeros that a GPU reads and writes without the host's help."""
    return torch.zeros(shape, dtype=dtype, pin_memory=device.type == "cuda")
