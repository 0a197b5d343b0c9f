"""Tokens per second of decoding on graphs and call by call, beside what the bandwidth allows."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.gpu.decoder import Decoder, seconds_per_step
from benchmarks.gpu.random_model import make_model
from benchmarks.gpu.report import PartReport
from benchmarks.gpu.settings import Settings, is_small

_WARM_STEPS = 4


def measure(report: PartReport, models: Sequence[str], settings: Settings) -> None:
    """Measure every model at every batch."""
    report.facts["graphs are captured for sequences of"] = f"{settings.max_model_len} tokens"
    report.each(models, str, lambda model: _measure_model(report, model, settings))


def _measure_model(report: PartReport, model: str, settings: Settings) -> None:
    decoder = Decoder(
        make_model(model, settings.max_model_len),
        max_rows=max(settings.decode_batches),
        max_tokens=settings.decode_context + settings.decode_steps + _WARM_STEPS,
        max_model_len=settings.max_model_len,
    )
    report.each(
        settings.decode_batches,
        lambda batch: f"{model}, batch {batch}",
        lambda batch: _measure_batch(report, decoder, batch, settings),
    )


def _measure_batch(report: PartReport, decoder: Decoder, batch: int, settings: Settings) -> None:
    made, context = decoder.made, settings.decode_context
    wrong = wrong_picks(report, decoder, batch, context)
    share = _target(made.name, batch)

    def add(what: str, seconds: float, mean_context: float, share: float | None, note: str) -> None:
        limit = batch * report.bytes_per_s / made.step_bytes(batch, mean_context)
        target = None if share is None else share * limit
        at = {"batch": batch, "context": context}
        report.add(made.name, what, batch / seconds, "tokens/s", limit=limit, target=target, note=note, **at)

    decoder.start(batch, context)
    decoder.free(_WARM_STEPS)
    seconds = seconds_per_step(decoder.free, settings.decode_steps)
    note = wrong or ("" if share is None else f"target: {share:.0%} of the limit")
    add("graph", seconds, context + _WARM_STEPS + settings.decode_steps / 2, share, note)
    stretches = decoder.start(batch, context)
    seconds = seconds_per_step(lambda num_steps: decoder.eager(stretches, num_steps), settings.eager_steps)
    add("eager", seconds, context + settings.eager_steps / 2, None, "")


def wrong_picks(report: PartReport, decoder: Decoder, batch: int, context: int) -> str:
    """Keep a failure if graphs pick other tokens than single calls, and return what a figure says then."""
    expected = decoder.eager(decoder.start(batch, context), 2)
    decoder.start(batch, context)
    found = decoder.free(2)
    if found == expected:
        return ""
    report.fail(f"{decoder.made.name}, batch {batch}", f"graphs pick {found}, single calls {expected}")
    return "WRONG: graphs pick other tokens than single calls"


def _target(model: str, batch: int) -> float | None:
    if batch == 1:
        return 0.5 if is_small(model) else 0.7
    return 0.6 if batch == 32 else None
