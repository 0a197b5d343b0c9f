"""Invariance: whether it holds, op by op and for whole models, and what it costs a decoding step."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from benchmarks.gpu.bits import Difference
from benchmarks.gpu.decoder import Decoder
from benchmarks.gpu.model_invariance import ModelChecks, tokens_of_checks
from benchmarks.gpu.op_invariance import MANY_ROWS, op_checks
from benchmarks.gpu.passes import Stretch, fixed_pass, num_blocks, tables_of
from benchmarks.gpu.random_model import RandomModel, make_model
from benchmarks.gpu.report import PartReport
from benchmarks.gpu.settings import Settings
from benchmarks.harness import device
from benchmarks.kernels.case import MODELS
from benchmarks.kernels.timing import timed

MOST_COST = 1.1
"""Of a step with torch's products and splits of any size."""

FREE_SPLIT_TOKENS = (64, 128, 256, 512, 1024)

_ROUNDS = 3


def measure(report: PartReport, models: Sequence[str], settings: Settings) -> None:
    """Check the ops of the first model, then every model as a whole and the price of its step, then the other ops."""
    _check_ops(report, models[:1], settings)
    report.each(models, str, lambda model: _measure_model(report, model, settings))
    _check_ops(report, models[1:], settings)


def _check_ops(report: PartReport, models: Sequence[str], settings: Settings) -> None:
    for model in models:
        report.each(
            op_checks(MODELS[model], (*settings.invariance_rows, MANY_ROWS)),
            lambda check, model=model: f"{model}, {check[0]}",
            lambda check, model=model: _add_check(report, model, check),
        )


def _measure_model(report: PartReport, model: str, settings: Settings) -> None:
    made = make_model(model, settings.max_model_len)
    _check_model(report, made, settings)
    report.each(
        settings.decode_batches,
        lambda batch: f"{model}, price at batch {batch}",
        lambda batch: _measure_price(report, made, batch, settings),
    )


def _check_model(report: PartReport, made: RandomModel, settings: Settings) -> None:
    prompt_len, counts = settings.invariance_prompt_len, settings.invariance_rows
    decoder = Decoder(
        made,
        max_rows=max(*counts, 3),
        max_tokens=tokens_of_checks(prompt_len),
        max_model_len=settings.max_model_len,
        num_spare=1,  # the first sequence is kept beside those that change
    )
    report.each(
        ModelChecks(decoder, prompt_len, counts),
        lambda check: f"{made.name}, {check[0]}",
        lambda check: _add_check(report, made.name, (f"logits: {check[0]}", check[1])),
    )


def _add_check(report: PartReport, model: str, check: tuple[str, Callable[[], Difference]]) -> None:
    name, compare = check
    found = compare()
    report.add(
        model, name, found.num_elements, "elements", target=0, is_target_most=True, note=found.first or "equal bits"
    )


def _measure_price(report: PartReport, made: RandomModel, batch: int, settings: Settings) -> None:
    """Time the same step, captured, strictly and as fast as torch's products and the best splits make it."""
    context = settings.decode_context
    layers = made.new_cache(batch * num_blocks(context))
    ids = made.random_ids(batch, seed=batch)
    stretches = [
        Stretch([token_id], context - 1, table) for token_id, table in zip(ids, tables_of(batch, context), strict=True)
    ]

    def step_us(*, is_invariant: bool) -> float:
        step = fixed_pass(made, layers, stretches, is_invariant=is_invariant)
        found = timed(step, repeats=settings.repeats)
        if found.how == "eager":
            raise RuntimeError("the step cannot be captured, and launched call by call its time is the host's")
        return found.timing.median * 1e6

    # In turns, so that a clock that changes meanwhile changes both.
    strict: list[float] = []
    fast: dict[int | None, list[float]] = {}
    for _ in range(_ROUNDS):
        strict.append(step_us(is_invariant=True))
        for split_tokens in _splits():
            with _splits_of(split_tokens):
                fast.setdefault(split_tokens, []).append(step_us(is_invariant=False))
    best = min(fast, key=lambda split_tokens: statistics.median(fast[split_tokens]))
    strict_us, fast_us = statistics.median(strict), statistics.median(fast[best])
    at = {"batch": batch, "context": context}
    note = "the engine's splits" if best is None else f"splits of {best} tokens"
    report.add(made.name, "strict step", strict_us, "us", **at)
    report.add(made.name, "step with torch's products, free splits", fast_us, "us", note=note, **at)
    report.add(made.name, "strict / free", strict_us / fast_us, "ratio", target=MOST_COST, is_target_most=True, **at)


def _splits() -> tuple[int | None, ...]:
    return (None,) if device().type == "cpu" else (None, *FREE_SPLIT_TOKENS)


@contextmanager
def _splits_of(num_tokens: int | None) -> Generator[None]:
    """Let attention on a GPU split contexts every so many tokens instead of its fixed number; None changes nothing."""
    if num_tokens is None:
        yield
        return
    from sureact_kernels.triton import paged_attention

    kept = paged_attention.SPLIT_TOKENS
    paged_attention.SPLIT_TOKENS = num_tokens
    try:
        yield
    finally:
        paged_attention.SPLIT_TOKENS = kept
