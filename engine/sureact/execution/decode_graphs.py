"""Decoding steps whose inputs and outputs stay on the device, recorded once per shape.

A free step is one graph: embed the tokens, run the blocks and the head, pick, and make what was picked the input of the
next step. A masked step is two: the blocks, and behind them the head and the pick under masks that the host fills while
the blocks run; the second waits for the masks on the device, so that they cannot come late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from sureact.errors import OutOfMemoryError
from sureact.execution.decode_buffers import DecodeBuffers, DecodeRow, PendingPicks
from sureact.execution.graph_capture import Recorder
from sureact.execution.memory import GIGABYTE, free_bytes
from sureact.layers.attention_metadata import AttentionContext
from sureact.layers.rotary import RotaryTable
from sureact.models.causal_lm import CausalLM, LayerCache
from sureact_kernels import dispatch
from sureact_kernels.attention_plan import AttentionPlan, plan_attention, plan_decoding

MOST_ROWS = 64
"""Rows that one product of few rows takes: more are a prompt's business."""

_ROW_COUNTS = (1, 2, 4, 8, 16, 32, MOST_ROWS)
"""Rows of the recorded steps; a step is padded to the next."""

_SHORTEST_CONTEXT = 1024
_CONTEXT_GROWTH = 4
"""Recorded for contexts of up to 1,024 tokens, 4,096 and so on, since attention launches programs for the longest
context that a recording may meet, needed or not."""

_TOKENS_OF_A_PARTIAL_SUM = 256
"""Tokens that attention sums before it adds the sums of others, whose memory a recording keeps."""

Mode = Literal["free", "body", "head"]
_Key = tuple[Mode, int, int]
"""Mode, rows, and longest context, 0 for the head, which sees none."""


class DecodeGraphs:
    """Steps of one token per row. A step is recorded when it is first asked for, or all at once by `capture`.

    On a CPU nothing is recorded and steps just run, with the same results.
    """

    def __init__(
        self,
        model: CausalLM,
        layers: Sequence[LayerCache],
        *,
        block_size: int,
        dummy_block: int,
        max_rows: int,
        max_model_len: int,
    ) -> None:
        """Reserve the buffers.

        Args:
            model: what runs; without experts, whose choice the host would have to see.
            layers: keys and values of each layer, with `dummy_block`.
            block_size: tokens per block.
            dummy_block: where padding is written; no sequence has it.
            max_rows: rows of a step, at most `MOST_ROWS`.
            max_model_len: tokens of the longest context.
        """
        assert max_rows <= MOST_ROWS, f"a step has at most {MOST_ROWS} rows, not {max_rows}"
        self._model, self._layers, self._block_size = model, layers, block_size
        self._device = model.embedding.device
        self._max_model_len = max_model_len
        self._row_counts = (*(count for count in _ROW_COUNTS if count < max_rows), max_rows)
        self._buffers = DecodeBuffers(
            max_rows=max_rows,
            max_blocks=-(-max_model_len // block_size),
            block_size=block_size,
            dummy_block=dummy_block,
            num_logits=model.config.vocab_size,
            device=self._device,
        )
        self._hidden = torch.empty(
            max_rows, model.config.hidden_size, dtype=model.final_norm.weight.dtype, device=self._device
        )
        self._logits: dict[int, torch.Tensor] = {}
        self._recorder = Recorder(self._device)
        self._recorded: dict[_Key, Callable[[], None]] = {}
        self._num_loaded = self._num_rows = self._longest = 0

    @property
    def max_rows(self) -> int:
        """Rows of a step at most."""
        return self._buffers.max_rows

    @property
    def num_keys(self) -> int:
        """Recordings that `capture` makes."""
        return sum(1 for _ in self._keys())

    def check_memory(self) -> None:
        """Check that there is memory for what `capture` keeps.

        Raises:
            OutOfMemoryError: there is not; the message has the numbers.
        """
        config = self._model.config
        num_splits = -(-self._max_model_len // _TOKENS_OF_A_PARTIAL_SUM)
        row_bytes = 4 * (2 * config.vocab_size + config.num_q_heads * num_splits * (config.head_dim + 2))
        row_bytes += 16 * (config.hidden_size + config.intermediate_size)
        kept = 4 * config.vocab_size * sum(self._row_counts)
        needed, free = kept + row_bytes * self.max_rows, free_bytes(self._device)
        if needed > free:
            raise OutOfMemoryError(
                f"Recorded decode steps need about {needed / GIGABYTE:.2f} GB on {self._device}; "
                f"{free / GIGABYTE:.2f} GB are free. Lower kv_cache_gb or max_running_requests."
            )

    @torch.inference_mode()
    def capture(self, progress: Callable[[str], None] | None = None) -> None:
        """Record every step there is, and run each once, since the first time takes longer; what is loaded is lost.

        Args:
            progress: told of each.

        Raises:
            torch.OutOfMemoryError: what the steps need at once does not fit.
            RuntimeError: the model cannot be recorded.
            KernelInputError: a kernel that a step needs is off, or does not take the model.
        """
        self.load([], torch.empty(0, 1, dtype=torch.int32))
        for index, key in enumerate(self._keys(), 1):
            if progress is not None:
                progress(f"Recording decode steps: {index} of {self.num_keys}")
            self._step_of(key)()

    @torch.inference_mode()
    def load(self, rows: Sequence[DecodeRow], masks: torch.Tensor | None = None) -> None:
        """Say what the next step computes.

        Args:
            rows: at most `max_rows`.
            masks: `[len(rows), words]`, int32, on the host: what free steps may pick; None if the step is masked.
        """
        self._num_loaded = len(rows)
        self._num_rows = next(count for count in self._row_counts if count >= len(rows))
        self._longest = max((row.position + 1 for row in rows), default=1)
        self._buffers.load(rows, self._num_rows)
        if masks is not None:
            self._buffers.load_stops(rows, self._num_rows)
            self._buffers.load_masks(masks, self._num_rows)

    @torch.inference_mode()
    def load_tables(self, tables: Mapping[int, Sequence[int]]) -> None:
        """Write longer block tables of some rows, by the order in which they were loaded, for the steps to come."""
        self._buffers.load_tables(tables, self._num_rows)

    @torch.inference_mode()
    def step(self) -> PendingPicks:
        """Launch a free step on what was loaded or picked last, and return at once."""
        self._step_of(("free", self._num_rows, self._context_of(self._longest)))()
        self._longest += 1
        return self._buffers.fetch(self._num_loaded)

    @torch.inference_mode()
    def step_masked(self, fill_masks: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, PendingPicks]:
        """Run one step on what was loaded.

        Args:
            fill_masks: called while the blocks run; returns `[num_loaded, words]`, int32, on the host.

        Returns:
            Logits `[num_loaded, num_logits]`, float32, valid until the next step; and what is picked of them.
        """
        self._step_of(("body", self._num_rows, self._context_of(self._longest)))()
        self._buffers.load_masks(fill_masks(), self._num_rows)
        self._step_of(("head", self._num_rows, 0))()
        return self._logits[self._num_rows][: self._num_loaded], self._buffers.fetch(self._num_loaded)

    def _keys(self) -> Iterator[_Key]:
        """Yield the largest first, whose memory the others then share."""
        contexts = sorted({self._context_of(length) for length in _powers(self._max_model_len)}, reverse=True)
        for num_rows in reversed(self._row_counts):
            for context in contexts:
                yield "free", num_rows, context
                yield "body", num_rows, context
            yield "head", num_rows, 0

    def _context_of(self, length: int) -> int:
        """Return the longest context of the recording that serves a context of `length` tokens."""
        context = _SHORTEST_CONTEXT
        while context < length:
            context *= _CONTEXT_GROWTH
        return min(context, self._max_model_len)

    def _step_of(self, key: _Key) -> Callable[[], None]:
        if key not in self._recorded:
            mode, num_rows, context = key
            metadata = DecodeMetadata(self._buffers, num_rows, self._plan(num_rows, context) if context else None)
            run: Callable[[], None] = {
                "free": lambda: self._free(metadata),
                "body": lambda: self._body(metadata),
                "head": lambda: self._head(num_rows),
            }[mode]
            self._recorded[key] = self._recorder.record(run)
        return self._recorded[key]

    def _plan(self, num_rows: int, context: int) -> AttentionPlan | None:
        """Describe the queries to kernels that read lengths from the device; None where the host must know them."""
        if self._device.type != dispatch.GPU:
            return None
        buffers = self._buffers
        return plan_decoding(
            buffers.rows.block_tables[:num_rows],
            buffers.rows.context_lens[:num_rows],
            most_tokens=context,
            block_size=self._block_size,
            group=self._model.config.num_q_heads // self._model.config.num_kv_heads,
        )

    def _run_blocks(self, metadata: DecodeMetadata) -> torch.Tensor:
        return self._model.forward(self._buffers.rows.token_ids[: metadata.num_rows], metadata, self._layers)

    def _free(self, metadata: DecodeMetadata) -> None:
        self._buffers.feed(self._buffers.pick(self._model.logits(self._run_blocks(metadata))))

    def _body(self, metadata: DecodeMetadata) -> None:
        self._hidden[: metadata.num_rows] = self._run_blocks(metadata)

    def _head(self, num_rows: int) -> None:
        # Kept, so that nothing else is put in their place: whoever asked for the step may still read them.
        self._logits[num_rows] = self._model.logits(self._hidden[:num_rows], self._buffers.masks(num_rows))
        self._buffers.store(self._buffers.pick(self._logits[num_rows]))


@dataclass(frozen=True, slots=True, eq=False)
class DecodeMetadata:
    """Where the tokens of a step stand: as the buffers say when it runs, not when it is made."""

    buffers: DecodeBuffers
    num_rows: int
    plan: AttentionPlan | None

    def context(self, rotary: RotaryTable, *, block_size: int, group: int) -> AttentionContext:
        """Prepare what all layers share, see `AttentionMetadata.context`."""
        rows, num_rows = self.buffers.rows, self.num_rows
        plan = self.plan
        if plan is None:
            lens = rows.context_lens[:num_rows].tolist()
            tables = rows.block_tables[:num_rows]
            plan = plan_attention(tables, [1] * num_rows, lens, block_size=block_size, group=group)
        cos, sin = rotary.at(rows.positions[:num_rows])
        return AttentionContext(cos, sin, rows.slots[:num_rows], plan, is_invariant=True)


def _powers(longest: int) -> Iterator[int]:
    length = _SHORTEST_CONTEXT
    while length < longest:
        yield length
        length *= _CONTEXT_GROWTH
    yield longest
