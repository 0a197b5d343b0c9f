"""Every op alone at the shapes of every model, as `python -m benchmarks.kernels` measures it."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.gpu.report import PartReport
from benchmarks.gpu.settings import Settings
from benchmarks.kernels.__main__ import Measurer
from benchmarks.kernels.case import MODELS
from benchmarks.kernels.cases import CASES
from benchmarks.kernels.timing import least_us


def measure(report: PartReport, models: Sequence[str], settings: Settings) -> None:
    """Measure all ops at the first model, then at the next."""
    least = least_us()
    report.facts["least"] = f"{least:.1f} us, measured of an op that writes four bytes"
    report.each(
        [(model, op) for model in models for op in CASES],
        lambda case: f"{case[0]}, {case[1]}",
        lambda case: _measure_op(report, *case, Measurer(report.copy_gb_per_s, least, settings.repeats)),
    )


def _measure_op(report: PartReport, model: str, op: str, measurer: Measurer) -> None:
    measurer.measure_op(op, model, CASES[op](MODELS[model]))
    found = measurer.report()
    for row in found["rows"]:
        report.add(
            model,
            f"{op} {row['shape']}",
            row["us"],
            "us",
            limit=row["us"] * row["share_of_copy"],
            note=f"{row['how']}, {row['gb_per_s']:.0f} GB/s, {row['ratio_to_torch']:.2f} x torch",
        )
    for failure in found["failures"]:
        report.fail(f"{model}, {op} {failure['shape']}", failure["error"])
