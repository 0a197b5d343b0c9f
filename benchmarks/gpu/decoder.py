"""Drives `DecodeGraphs` as the engine does: free steps one behind, constrained ones with a mask for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from benchmarks.gpu.passes import Stretch, last_logits, num_blocks, tables_of
from benchmarks.gpu.random_model import RandomModel
from benchmarks.harness import device

from sureact.execution.decode_buffers import DecodeRow
from sureact.execution.decode_graphs import DecodeGraphs
from sureact_kernels.masked_argmax import masked_argmax


class Decoder:
    """A model with a cache of noise and the graphs that decode over it.

    Args:
        made: the model.
        max_rows: of a step.
        max_tokens: of each sequence.
        max_model_len: that the graphs are captured for.
        num_spare: sequences beyond those of one step.
    """

    def __init__(
        self, made: RandomModel, *, max_rows: int, max_tokens: int, max_model_len: int, num_spare: int = 0
    ) -> None:
        self.made = made
        self.tables = tables_of(max_rows + num_spare, max_tokens)
        dummy_block = len(self.tables) * num_blocks(max_tokens)
        self.layers = made.new_cache(dummy_block + 1)
        self.graphs = DecodeGraphs(
            made.model,
            self.layers,
            block_size=self.layers[0][0].shape[1],
            dummy_block=dummy_block,
            max_rows=max_rows,
            max_model_len=max_model_len,
        )
        self.graphs.capture()

    @property
    def num_words(self) -> int:
        """Words of a mask."""
        return -(-self.made.sizes.vocab_size // 32)

    def start(self, batch: int, context: int) -> list[Stretch]:
        """Load sequences of `context` tokens; return what their first step computes."""
        ids = self.made.random_ids(batch, seed=context)
        stretches = [Stretch([ids[row]], context - 1, self.tables[row]) for row in range(batch)]
        self.load(stretches)
        return stretches

    def load(self, stretches: Sequence[Stretch], *, is_free: bool = True) -> None:
        """Load rows of one token each; if free, every token may follow."""
        rows = [DecodeRow(stretch.token_ids[0], stretch.start, stretch.table) for stretch in stretches]
        masks = torch.full((len(rows), self.num_words), -1, dtype=torch.int32) if is_free else None
        self.graphs.load(rows, masks)

    def free(self, num_steps: int) -> list[list[int]]:
        """Decode freely; return the tokens of each step. The host waits for a step while the next one runs."""
        picked: list[list[int]] = []
        pending = self.graphs.step()
        for _ in range(num_steps - 1):
            following = self.graphs.step()
            picked.append(pending.wait())
            pending = following
        picked.append(pending.wait())
        return picked

    def masked(
        self,
        stretches: Sequence[Stretch],
        num_steps: int,
        fill_masks: Callable[[], torch.Tensor],
        accept: Callable[[list[int]], None] | None = None,
    ) -> list[Stretch]:
        """Decode under a mask for each step, which can only be filled once the token before is known.

        Args:
            stretches: rows of one token each.
            num_steps: how many.
            fill_masks: returns the masks of a step.
            accept: is told what was picked.

        Returns:
            What a further step would compute.
        """
        for _ in range(num_steps):
            self.load(stretches, is_free=False)
            picked = self.graphs.step_masked(fill_masks)[1].wait()
            if accept is not None:
                accept(picked)
            stretches = _following(stretches, picked)
        return list(stretches)

    def eager(self, stretches: Sequence[Stretch], num_steps: int) -> list[list[int]]:
        """Decode the same call by call; return the tokens of each step."""
        picked: list[list[int]] = []
        all_ids = torch.full((len(stretches), self.num_words), -1, dtype=torch.int32, device=device())
        for _ in range(num_steps):
            logits = last_logits(self.made, self.layers, stretches)
            picked.append(masked_argmax(logits, all_ids).tolist())
            stretches = _following(stretches, picked[-1])
        return picked


def _following(stretches: Sequence[Stretch], picked: Sequence[int]) -> list[Stretch]:
    """Return what the step after one computes that picked these."""
    return [Stretch([token_id], s.end, s.table) for token_id, s in zip(picked, stretches, strict=True)]


def seconds_per_step(run: Callable[[int], object], num_steps: int) -> float:
    """Time steps by the clock; `run` takes their number and returns when the last is known."""
    start = time.perf_counter()
    run(num_steps)
    return (time.perf_counter() - start) / num_steps
