"""Runs decode steps as recorded graphs, and one step ahead of the host where the text is free."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch

from sureact.errors import OutOfMemoryError
from sureact.execution.decode_buffers import MOST_STOP_LEN, DecodeRow, PendingPicks
from sureact.execution.decode_graphs import DecodeGraphs
from sureact.execution.model_runner import PagedModelRunner
from sureact.execution.pass_output import PassOutput
from sureact.execution.seen_ids import SeenBits
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.scheduling.batch import Batch, ScheduledRequest
from sureact.scheduling.request import Request
from sureact_kernels.dispatch import reason_without_triton
from sureact_kernels.errors import KernelInputError

GRAPH_DEVICE = "cuda"
"""The type of device that decodes by graphs."""

_STEPS_WITHOUT_RUNNING_AHEAD = 16
"""After a draft came in the way of a step that was already computed, so that the draft had to wait for nothing."""


def decodes_by_graphs(device: torch.device) -> bool:
    """Tell whether `with_graphs` may record anything there."""
    return device.type == GRAPH_DEVICE


def with_graphs(
    runner: PagedModelRunner, *, dummy_block: int, max_rows: int, progress: Callable[[str], None] | None = None
) -> tuple[PagedModelRunner, str | None]:
    """Record the decode steps of a runner's model.

    Args:
        runner: as it runs without graphs.
        dummy_block: a block of its storage that no sequence gets.
        max_rows: rows of a step.
        progress: told of each recording.

    Returns:
        A runner that decodes by graphs, and None; or `runner`, and why it goes on without.
    """
    if runner.model.config.moe is not None:
        return runner, "Decoding runs without CUDA graphs: the host chooses the experts of this model."
    if (reason := reason_without_triton()) is not None:
        return runner, f"Decoding runs without CUDA graphs, which need the kernels in Triton: {reason}"
    try:
        runner.try_prompt(dummy_block)
        graphs = DecodeGraphs(
            runner.model,
            runner.storage.layers,
            block_size=runner.block_size,
            dummy_block=dummy_block,
            max_rows=max_rows,
            max_model_len=runner.model.rotary.max_model_len,
        )
        graphs.check_memory()
        graphs.capture(progress)
    except (RuntimeError, OutOfMemoryError, KernelInputError) as error:  # torch.OutOfMemoryError is a RuntimeError
        told = str(error).strip().splitlines()[0]
        return runner, f"Decoding runs without CUDA graphs, several times slower on small models: {told}"
    return GraphedRunner(runner, graphs), None


class _Place(NamedTuple):
    """Where the device computes a request's token."""

    row: int
    position: int
    block_table: tuple[int, ...]
    """As the device knows it. By now the host may have added a block, or replaced one that a fork held, too."""


@dataclass(slots=True, eq=False)
class _Ahead:
    """A step that was launched before the host knew what the step before it picked."""

    places: dict[Request, _Place]
    """Of each request in it but for those that met a stop in the step before."""
    picks: PendingPicks

    def rows_of(self, entries: Sequence[ScheduledRequest]) -> list[int] | None:
        """Return the rows that computed just these tokens, None if one is missing."""
        rows: list[int] = []
        for entry in entries:
            place = self.places.get(entry.request)
            if place is None or place.position != entry.start:
                return None
            if place.block_table != tuple(entry.request.sequence.block_table[: len(place.block_table)]):
                return None
            rows.append(place.row)
        return rows


class GraphedRunner(PagedModelRunner):
    """Decode steps whose rows fit run as graphs; prompts, and what does not fit, run as in `PagedModelRunner`.

    While the device computes a free step the host hands out the tokens of the one before. The step ahead writes only
    behind the tokens that are there, into blocks that its requests hold; if it was not wanted after all (a request
    ended, another came), what it wrote is written over, since everything on the device happens in the order of launch.
    """

    def __init__(self, plain: PagedModelRunner, graphs: DecodeGraphs) -> None:
        super().__init__(plain.model, plain.storage, block_size=plain.block_size, is_strict=plain.is_strict)
        self._graphs = graphs
        self._ahead: _Ahead | None = None
        self._num_to_wait = 0
        self._seen: WeakKeyDictionary[CachedSequence, SeenBits] = WeakKeyDictionary()
        """Of each text with a repetition penalty."""

    @property
    def runs_ahead(self) -> bool:
        """True: of free text."""
        return True

    @torch.inference_mode()
    def run(self, batch: Batch, fill_masks: Callable[[], torch.Tensor]) -> PassOutput:
        """Run the pass as a graph where there is one."""
        ahead, self._ahead = self._ahead, None
        fits = batch.is_decode and sum(entry.num_rows for entry in batch.entries) <= self._graphs.max_rows
        if fits and all(_is_free(entry) for entry in batch.entries):
            return self._run_free(batch.entries, fill_masks, ahead)
        if ahead is not None:
            self._num_to_wait = _STEPS_WITHOUT_RUNNING_AHEAD
        return self._run_masked(batch, fill_masks) if fits else super().run(batch, fill_masks)

    def _run_masked(self, batch: Batch, fill_masks: Callable[[], torch.Tensor]) -> PassOutput:
        rows = [row for entry in batch.entries for row in self._rows_of(entry)]
        picked_rows = self._picked_rows(batch.entries)
        self._graphs.load(rows)
        if len(picked_rows) == len(rows):
            logits, picks = self._graphs.step_masked(fill_masks)
            return PassOutput(logits, tuple(picks.wait()))

        def fill_all() -> torch.Tensor:
            """What follows a token inside forced text is known; its row may pick anything."""
            masks = fill_masks()
            widened = torch.full((len(rows), masks.shape[1]), -1, dtype=torch.int32)
            widened[picked_rows] = masks
            return widened

        logits, picks = self._graphs.step_masked(fill_all)
        token_ids = picks.wait()
        return PassOutput(logits[picked_rows], tuple(token_ids[row] for row in picked_rows))

    def _run_free(
        self, entries: Sequence[ScheduledRequest], fill_masks: Callable[[], torch.Tensor], ahead: _Ahead | None
    ) -> PassOutput:
        rows = ahead.rows_of(entries) if ahead is not None else None
        masks = fill_masks()
        known: dict[Request, tuple[int, ...]] | None = None
        if ahead is None or rows is None:
            self._graphs.load([row for entry in entries for row in self._rows_of(entry)], masks)
            rows, picks = list(range(len(entries))), self._graphs.step()
            known = {entry.request: tuple(entry.request.sequence.block_table) for entry in entries}
        else:
            picks = ahead.picks
            # Whoever the host has ended must not run on, on the device.
            if len(rows) == len(ahead.places):
                known = {request: place.block_table for request, place in ahead.places.items()}
        if known is not None and self._may_run_ahead(entries, known):
            self._ahead = self._launch_ahead(entries, rows, known)
        return PassOutput(None, self._picked(picks, rows))

    def _launch_ahead(
        self, entries: Sequence[ScheduledRequest], rows: Sequence[int], known: Mapping[Request, tuple[int, ...]]
    ) -> _Ahead:
        """Launch the next step, and tell the device before of blocks that requests have got since it was told last."""
        places = {
            entry.request: _Place(row, entry.end, tuple(entry.request.sequence.block_table))
            for row, entry in zip(rows, entries, strict=True)
        }
        longer = {
            place.row: place.block_table for request, place in places.items() if place.block_table != known[request]
        }
        if longer:
            self._graphs.load_tables(longer)
        return _Ahead(places, self._graphs.step())

    def _picked(self, picks: PendingPicks, rows: Sequence[int]) -> tuple[int, ...]:
        """Wait for a step; what met a stop in it was not computed by the step ahead."""
        try:
            token_ids = picks.wait()
        except Exception:
            self._ahead = None
            raise
        if self._ahead is not None:
            stopped = picks.has_stopped()
            self._ahead.places = {
                request: place for request, place in self._ahead.places.items() if not stopped[place.row]
            }
        return tuple(token_ids[row] for row in rows)

    def _may_run_ahead(self, entries: Sequence[ScheduledRequest], known: Mapping[Request, tuple[int, ...]]) -> bool:
        self._num_to_wait = max(0, self._num_to_wait - 1)
        return not self._num_to_wait and all(self._has_room_ahead(entry, known[entry.request]) for entry in entries)

    def _has_room_ahead(self, entry: ScheduledRequest, known_table: Sequence[int]) -> bool:
        """Whether the request is not known to end with this token, and the device knew a block for the one after it.

        It must have known when it launched the step that is under way, which looks up the place of the next.
        """
        request = entry.request
        has_block = entry.end < len(known_table) * self.block_size
        return has_block and len(request.generated_ids) + 1 < request.params.max_tokens

    def _rows_of(self, entry: ScheduledRequest) -> list[DecodeRow]:
        """Return the rows of an entry: its last token and each drafted one, as if they were sequences of their own."""
        request = entry.request
        stops = (*request.params.stop_token_ids, *(() if request.params.ignore_eos else _ends(request)))
        return [
            DecodeRow(
                token_id,
                entry.start + offset,
                request.sequence.block_table,
                request.generated_ids[-MOST_STOP_LEN:],
                stops if not entry.draft else (),
                request.repetition_penalty,
                self._seen_in(request, entry.draft[:offset]),
            )
            for offset, token_id in enumerate(entry.token_ids)
        ]

    def _seen_in(self, request: Request, drafted: Sequence[int]) -> np.ndarray | None:
        """Return the bits of the ids in a request's text and in what is drafted behind it."""
        if request.repetition_penalty == 1:
            return None
        sequence = request.sequence
        if sequence not in self._seen:
            self._seen[sequence] = SeenBits(request.vocabulary.num_logits)
        bits = self._seen[sequence].of(sequence.token_ids)
        for token_id in drafted:
            bits[token_id // 32] |= np.array(1 << token_id % 32, dtype=np.uint32).view(np.int32)
        return bits


def _is_free(entry: ScheduledRequest) -> bool:
    return entry.num_rows == entry.num_picks == 1 and entry.request.decodes_freely


def _ends(request: Request) -> list[tuple[int, ...]]:
    return [(eos_id,) for eos_id in request.vocabulary.eos_ids]
