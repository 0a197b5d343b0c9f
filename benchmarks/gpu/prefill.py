"""Tokens per second of reading prompts with strict products, and with torch's."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.gpu.passes import Stretch, last_logits, num_blocks, tables_of
from benchmarks.gpu.random_model import RandomModel, make_model
from benchmarks.gpu.report import PartReport
from benchmarks.gpu.settings import Settings
from benchmarks.harness import time_calls

TARGET = 0.7
"""Of the speed with torch's products."""

_MOST_REPEATS = 5


def measure(report: PartReport, models: Sequence[str], settings: Settings) -> None:
    """Measure every model at every length, each prompt in one pass."""
    report.facts["fast"] = "the same pass with torch's products (determinism='fast'); attention is the same in both"
    report.each(models, str, lambda model: _measure_model(report, model, settings))


def _measure_model(report: PartReport, model: str, settings: Settings) -> None:
    made = make_model(model, settings.max_model_len)
    report.each(
        settings.prefill_lens,
        lambda length: f"{model}, {length} tokens",
        lambda length: _measure_length(report, made, length, min(settings.repeats, _MOST_REPEATS)),
    )


def _measure_length(report: PartReport, made: RandomModel, length: int, repeats: int) -> None:
    layers = made.new_cache(num_blocks(length))
    stretches = [Stretch(made.random_ids(length, seed=length), 0, tables_of(1, length)[0])]
    speeds: dict[str, float] = {}
    for what in ("strict", "fast"):
        timing = time_calls(
            lambda is_invariant=what == "strict": last_logits(made, layers, stretches, is_invariant=is_invariant),
            warmup=2,
            repeats=repeats,
        )
        speeds[what] = length / timing.median
        report.add(made.name, what, speeds[what], "tokens/s", batch=1, context=length)
    ratio = speeds["strict"] / speeds["fast"]
    report.add(made.name, "strict / fast", ratio, "ratio", batch=1, context=length, target=TARGET)
