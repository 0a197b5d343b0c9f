"""One row of the comparison: what is measured, with which engine, and the pairs of runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from sureact.engine import Engine
from sureact.evaluation.bench import decode_seconds, prefill_seconds, random_prompt

if TYPE_CHECKING:
    from sureact.config import Determinism


class Peer(Protocol):
    """Another way to run the same model."""

    def decode_seconds(self, prompt: list[int], num_tokens: int) -> float:
        """Return how long `num_tokens` tokens take after the first."""
        ...

    def prefill_seconds(self, prompt: list[int]) -> float:
        """Return how long a prompt takes up to its first token."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """A figure that is compared."""

    name: str
    phase: Literal["decode", "prefill"]
    quantization: Literal["auto", "none", "int8", "int4"]
    determinism: Determinism


CPU_ROWS = (
    Row("decode_int8", "decode", "int8", "strict"),
    Row("decode_int4", "decode", "int4", "strict"),
    Row("prefill_strict", "prefill", "int8", "strict"),
    Row("prefill_fast", "prefill", "int8", "fast"),
)
"""Their model is in bfloat16 in every row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How much is measured."""

    decode_prompt_len: int = 64
    decode_tokens: int = 64
    prefill_len: int = 1024
    repeats: int = 5


@dataclass(frozen=True, slots=True)
class Pair:
    """Tokens per second of two runs on one prompt, one right after the other; None where the peer is missing."""

    ours: float
    theirs: float | None


def compare(model: str, row: Row, peer: Peer | None, lengths: Lengths, *, device: str) -> dict[str, object]:
    """Measure a row in alternating pairs and return its medians, `ratio` being the median of the pairs' ratios."""
    with Engine(
        model, quantization=row.quantization, determinism=row.determinism, device=device, max_running_requests=1
    ) as engine:
        pairs = list(_pairs(engine, row, peer, lengths))
    ratios = [pair.ours / pair.theirs for pair in pairs if pair.theirs is not None]
    theirs = [pair.theirs for pair in pairs if pair.theirs is not None]
    return {
        "row": row.name,
        "ours": statistics.median(pair.ours for pair in pairs),
        "theirs": statistics.median(theirs) if theirs else None,
        "unit": "tokens/s",
        "ratio": statistics.median(ratios) if ratios else None,
    }


def _pairs(engine: Engine, row: Row, peer: Peer | None, lengths: Lengths) -> Iterator[Pair]:
    """Yield the measured pairs, after one that warms both up."""
    for seed in range(-1, lengths.repeats):
        if row.phase == "decode":
            num_tokens = lengths.decode_tokens
            prompt = random_prompt(engine, lengths.decode_prompt_len, seed=seed)
            ours = decode_seconds(engine, prompt, num_tokens)
            theirs = peer.decode_seconds(prompt, num_tokens) if peer else None
        else:
            num_tokens = lengths.prefill_len
            prompt = random_prompt(engine, num_tokens, seed=seed)
            ours = prefill_seconds(engine, prompt)
            theirs = peer.prefill_seconds(prompt) if peer else None
        if seed >= 0:
            yield Pair(num_tokens / ours, num_tokens / theirs if theirs else None)
