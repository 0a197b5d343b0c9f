"""What a mask at every step costs: constrained decoding on graphs beside free decoding at the same context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec

from benchmarks.gpu.decode import wrong_picks
from benchmarks.gpu.decoder import Decoder, seconds_per_step
from benchmarks.gpu.mask_filler import MaskFiller, NumpyFiller
from benchmarks.gpu.random_model import make_model
from benchmarks.gpu.report import PartReport
from benchmarks.gpu.settings import Settings, is_small

FEW_IDS = 30

_WARM_STEPS = 4
_ROUNDS = 3
"""Free and constrained steps alternate, so that a clock that changes meanwhile changes both."""


def measure(report: PartReport, models: Sequence[str], settings: Settings) -> None:
    """Measure every model at every batch with every kind of mask."""
    if find_spec("llguidance") is None:
        report.facts["masks of a grammar"] = "not measured: llguidance is not installed"
    report.each(models, str, lambda model: _measure_model(report, model, settings))


def _measure_model(report: PartReport, model: str, settings: Settings) -> None:
    decoder = Decoder(
        make_model(model, settings.max_model_len),
        max_rows=max(settings.constrained_batches),
        max_tokens=settings.decode_context + settings.decode_steps + _WARM_STEPS,
        max_model_len=settings.max_model_len,
    )
    for batch in settings.constrained_batches:
        report.each(
            fillers(batch, decoder.made.sizes.vocab_size),
            lambda filler, batch=batch: f"{model}, batch {batch}, {filler[0]}",
            lambda filler, batch=batch: _measure_filler(report, decoder, batch, filler, settings),
        )


NamedFiller = tuple[str, Callable[[], MaskFiller]]


def fillers(batch: int, vocab_size: int) -> Iterator[NamedFiller]:
    """Yield what kinds of masks there are, and what makes each."""
    for name, num_ids in (
        (f"{FEW_IDS} ids", FEW_IDS),
        ("half of the ids", vocab_size // 2),
        ("all ids", vocab_size),
    ):
        yield name, lambda num_ids=num_ids: NumpyFiller(batch, vocab_size, num_ids)
    if find_spec("llguidance") is not None:
        from benchmarks.gpu.grammar_filler import GrammarFiller

        yield "a grammar's, by llguidance", lambda: GrammarFiller(batch, vocab_size)


def _measure_filler(report: PartReport, decoder: Decoder, batch: int, filler: NamedFiller, settings: Settings) -> None:
    name, make = filler
    fill = make()
    accept = getattr(fill, "accept", None)
    model, context = decoder.made.name, settings.decode_context
    note = wrong_picks(report, decoder, batch, context)
    free: list[float] = []
    masked: list[float] = []
    for _ in range(_ROUNDS):
        decoder.start(batch, context)
        decoder.free(_WARM_STEPS)
        free.append(seconds_per_step(decoder.free, settings.decode_steps))
        rows = decoder.masked(decoder.start(batch, context), _WARM_STEPS, fill, accept)
        masked.append(
            seconds_per_step(lambda steps, rows=rows: decoder.masked(rows, steps, fill, accept), settings.decode_steps)
        )
    at = {"batch": batch, "context": context}
    limit = decoder.made.step_bytes(batch, context + settings.decode_steps / 2) / report.bytes_per_s
    report.add(model, f"free, beside {name}", min(free) * 1e6, "us", limit=limit * 1e6, **at)
    report.add(model, f"masked, {name}", min(masked) * 1e6, "us", **at)
    most = 1.02 if batch == 1 and not is_small(model) else 1.05
    ratio = min(masked) / min(free)
    report.add(model, f"masked / free, {name}", ratio, "ratio", target=most, is_target_most=True, note=note, **at)
