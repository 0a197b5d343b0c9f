"""What `sureact bench` writes of a measurement: rows for people, values for machines."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sureact.config import ResolvedConfig
    from sureact.evaluation.bench import Measurement
    from sureact.evaluation.bench_constrained import ConstrainedMeasurement
    from sureact.evaluation.bench_react import ReactMeasurement
    from sureact.evaluation.bench_throughput import ThroughputMeasurement


@dataclass(frozen=True, slots=True)
class Report:
    """A measurement, ready to be written."""

    rows: tuple[tuple[str, str], ...]
    values: dict[str, Any]
    notes: tuple[str, ...] = ()


def speed_report(measured: Measurement) -> Report:
    """Report decoding or prefill beside the limit of the memory."""
    rows = (
        *_heading(measured.config),
        (f"{measured.what} of {measured.num_tokens:,} tokens", f"{measured.median:,.1f} tokens/s (median)"),
        (
            "spread",
            f"{min(measured.tokens_per_s):,.1f} to {max(measured.tokens_per_s):,.1f} tokens/s in "
            f"{len(measured.seconds)} runs",
        ),
        ("bytes read per token", f"{measured.bytes_per_token / 1e6:,.1f} MB"),
        (f"{measured.bandwidth_kind} bandwidth", f"{measured.bandwidth_gb_per_s:,.1f} GB/s (measured)"),
        ("bandwidth limit", f"{measured.limit:,.1f} tokens/s, of which {measured.median / measured.limit:.0%} reached"),
    )
    values = {
        **asdict(measured),
        "tokens_per_s": measured.tokens_per_s,
        "median_tokens_per_s": measured.median,
        "limit_tokens_per_s": measured.limit,
    }
    return Report(rows, values, (f"Seconds per run: {', '.join(f'{s:.2f}' for s in measured.seconds)}",))


def constrained_report(measured: ConstrainedMeasurement) -> Report:
    """Report tool calls: speed, masks, forced tokens and drafts."""
    num_calls, acceptance = len(measured.calls), measured.draft_acceptance
    mask_us = 1e6 * measured.mask_s / measured.num_tokens if measured.num_tokens else 0.0
    rows = (
        *_heading(measured.config),
        ("calls", f"{num_calls}, {measured.num_complete} of them complete and valid, {len(measured.refused)} refused"),
        (f"decode of {measured.num_tokens:,} tokens", f"{measured.tokens_per_s:,.1f} tokens/s"),
        ("mask time", f"{mask_us:,.0f} us per token"),
        ("forced tokens", f"{measured.forced_tokens:,}"),
        ("draft acceptance", "no drafts" if acceptance is None else f"{acceptance:.0%}"),
        ("schema compile", f"{measured.compile_s * 1e3:,.1f} ms (median), not in the speed"),
    )
    values = {
        **asdict(measured),
        "num_complete": measured.num_complete,
        "num_tokens": measured.num_tokens,
        "tokens_per_s": measured.tokens_per_s,
        "mask_us_per_token": mask_us,
        "forced_tokens": measured.forced_tokens,
        "draft_acceptance": acceptance,
        "median_compile_s": measured.compile_s,
    }
    return Report(rows, values, tuple(f"Refused: {reason}" for reason in measured.refused))


def react_report(measured: ReactMeasurement) -> Report:
    """Report agent runs, turn by turn; the last turn is the answer."""
    last = len(measured.runs[0].turns) - 1
    names = [*(f"turn {index + 1}" for index in range(last)), "answer"]
    turns = tuple(
        (name, f"{measured.turn_seconds(index):.2f} s{_shares(measured, index)}") for index, name in enumerate(names)
    )
    num_tokens = statistics.median(run.num_tokens for run in measured.runs)
    unfinished = sum(run.num_unfinished for run in measured.runs)
    rows = (
        *_heading(measured.config),
        ("run", f"{measured.median:.2f} s (median of {len(measured.runs)}), {num_tokens:,.0f} tokens generated"),
        *turns,
        ("calls cut by their budget", f"{unfinished} of {len(measured.runs) * len(names)}"),
    )
    values = {**asdict(measured), "seconds": [run.seconds for run in measured.runs], "median_s": measured.median}
    return Report(rows, values)


def throughput_report(measured: ThroughputMeasurement) -> Report:
    """Report many requests at once."""
    rows = (
        *_heading(measured.config),
        (
            f"{measured.num_requests:,} requests",
            f"{measured.seconds:.1f} s, {measured.config.max_running_requests} together",
        ),
        (f"{measured.output_tokens:,} tokens generated", f"{measured.output_tokens_per_s:,.1f} tokens/s"),
        (f"with {measured.prompt_tokens:,} tokens of prompts", f"{measured.tokens_per_s:,.1f} tokens/s"),
    )
    values = {
        **asdict(measured),
        "output_tokens_per_s": measured.output_tokens_per_s,
        "tokens_per_s": measured.tokens_per_s,
    }
    return Report(rows, values)


def _heading(config: ResolvedConfig) -> tuple[tuple[str, str], ...]:
    return (
        ("model", f"{config.model_name}, {config.quantization}, {config.dtype}, {config.determinism}"),
        ("device", f"{config.device}, {config.num_threads} threads"),
    )


def _shares(measured: ReactMeasurement, index: int) -> str:
    timings = [run.turns[index].timings for run in measured.runs]
    prefill = statistics.median(timing.prefill_s for timing in timings)
    decode = statistics.median(timing.decode_s for timing in timings)
    mask = statistics.median(timing.mask_s for timing in timings)
    return f" (prefill {prefill:.2f}, decode {decode:.2f}, of it masks {mask:.3f})"
