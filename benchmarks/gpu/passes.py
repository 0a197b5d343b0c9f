"""Passes of a model over stretches of sequences, call by call as the eager runner does, or ready to capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from benchmarks.gpu.random_model import RandomModel
from benchmarks.harness import BLOCK_SIZE, device

from sureact.layers.attention_metadata import AttentionMetadata
from sureact.models.causal_lm import LayerCache
from sureact_kernels.embedding import embedding


class Stretch(NamedTuple):
    """Tokens of one sequence that a pass computes."""

    token_ids: Sequence[int]
    start: int
    """Index of the first in its sequence."""
    table: Sequence[int]
    """Blocks of the sequence."""

    @property
    def end(self) -> int:
        """Tokens of the sequence after the pass."""
        return self.start + len(self.token_ids)


def num_blocks(num_tokens: int) -> int:
    """Return the blocks that as many tokens fill."""
    return -(-num_tokens // BLOCK_SIZE)


def tables_of(num_rows: int, num_tokens: int) -> list[list[int]]:
    """Return a table for each of some sequences of as many tokens; the block after all of them is free."""
    width = num_blocks(num_tokens)
    return [list(range(row * width, (row + 1) * width)) for row in range(num_rows)]


@torch.inference_mode()
def run_pass(
    made: RandomModel, layers: Sequence[LayerCache], stretches: Sequence[Stretch], *, is_invariant: bool = True
) -> torch.Tensor:
    """Compute the hidden states of all tokens, `[num_tokens, hidden_size]`; the cache gets their keys and values."""
    metadata, token_ids = _inputs(stretches, is_invariant=is_invariant)
    return made.model.forward(token_ids, metadata, layers)


@torch.inference_mode()
def last_logits(
    made: RandomModel, layers: Sequence[LayerCache], stretches: Sequence[Stretch], *, is_invariant: bool = True
) -> torch.Tensor:
    """Compute the logits after each stretch, `[num_stretches, vocab_size]`, float32."""
    hidden = run_pass(made, layers, stretches, is_invariant=is_invariant)
    rows = torch.tensor([len(stretch.token_ids) for stretch in stretches]).cumsum(0) - 1
    return logits_of(made, hidden[rows.to(hidden.device)], is_invariant=is_invariant)


@torch.inference_mode()
def logits_of(made: RandomModel, hidden: torch.Tensor, *, is_invariant: bool = True) -> torch.Tensor:
    """Map hidden states to logits, float32; torch's own product computes them if they need not be invariant."""
    return made.model.lm_head(hidden, invariant=is_invariant).float()


def prefill(made: RandomModel, layers: Sequence[LayerCache], stretch: Stretch) -> int:
    """Compute a stretch and return the likeliest next token."""
    return int(last_logits(made, layers, [stretch]).argmax())


def fixed_pass(
    made: RandomModel, layers: Sequence[LayerCache], stretches: Sequence[Stretch], *, is_invariant: bool
) -> Callable[[], torch.Tensor]:
    """Return what computes the same pass up to its logits again and again, with all its inputs on the device."""
    model = made.model
    metadata, token_ids = _inputs(stretches, is_invariant=is_invariant)
    group = model.config.num_q_heads // model.config.num_kv_heads
    context = metadata.context(model.rotary, block_size=BLOCK_SIZE, group=group)

    @torch.inference_mode()
    def run() -> torch.Tensor:
        x, residual = embedding(token_ids, model.embedding).to(made.dtype), None
        for block, (keys, values) in zip(model.blocks, layers, strict=True):
            x, residual = block(x, residual, keys, values, context)
        assert residual is not None, "a model has at least one block"
        return logits_of(made, model.final_norm.add(x, residual)[0], is_invariant=is_invariant)

    return run


def _inputs(stretches: Sequence[Stretch], *, is_invariant: bool) -> tuple[AttentionMetadata, torch.Tensor]:
    positions = [position for stretch in stretches for position in range(stretch.start, stretch.end)]
    slots = [
        stretch.table[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE
        for stretch in stretches
        for position in range(stretch.start, stretch.end)
    ]
    used = [list(stretch.table[: num_blocks(stretch.end)]) for stretch in stretches]
    width = max(map(len, used))
    metadata = AttentionMetadata(
        positions=torch.tensor(positions, device=device()),
        slot_mapping=torch.tensor(slots, device=device()),
        block_tables=torch.tensor([table + table[:1] * (width - len(table)) for table in used], device=device()),
        context_lens=tuple(stretch.end for stretch in stretches),
        query_lens=tuple(len(stretch.token_ids) for stretch in stretches),
        is_invariant=is_invariant,
    )
    token_ids = [token_id for stretch in stretches for token_id in stretch.token_ids]
    return metadata, torch.tensor(token_ids, device=device())
