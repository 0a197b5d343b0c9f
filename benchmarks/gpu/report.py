"""What a part finds: its figures, what failed, and what its time did not reach; kept in a file after every case."""

from __future__ import annotations

import gc
import json
import logging
import math
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from benchmarks.harness import device
from benchmarks.kernels.__main__ import device_name
from benchmarks.kernels.timing import copy_gb_per_s

from sureact.evaluation.machine import versions
from sureact_kernels.dispatch import reason_without_triton

T = TypeVar("T")
R = TypeVar("R")

_KERNELS_LOGGER = logging.getLogger("sureact_kernels")

WEIGHTS = "random, of the models' shapes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number, beside what the hardware allows and what is asked for."""

    part: str
    model: str | None
    what: str
    """What was measured, within the part."""
    batch: int | None = None
    context: int | None = None
    value: float | None
    """None where it could not be measured; `note` says why."""
    unit: str
    limit: float | None = None
    """The best that the measured bandwidth allows, in the same unit."""
    target: float | None = None
    is_target_most: bool = False
    """Whether the target is the most that the value may be, instead of the least."""
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the value is as good as the target; None without either."""
        if self.value is None or self.target is None:
            return None
        return self.value <= self.target if self.is_target_most else self.value >= self.target

    @property
    def share_of_limit(self) -> float | None:
        """What is reached of what the bandwidth allows: of a time the limit is the least, of a speed the most."""
        if not self.value or self.limit is None:
            return None
        return self.limit / self.value if self.unit in ("us", "s") else self.value / self.limit


class PartReport:
    """Collects what one part finds."""

    def __init__(self, part: str, *, seconds: float, path: Path | None = None) -> None:
        """Start the clock.

        Args:
            part: its name.
            seconds: after which no further case is begun.
            path: of the JSON file that is written after every case; None writes none.
        """
        self.part = part
        self.figures: list[Figure] = []
        self.failures: list[dict[str, str]] = []
        self.cut: list[str] = []
        self.facts: dict[str, Any] = {}
        self._start = time.perf_counter()
        self._deadline = self._start + seconds
        self._path = path

    @cached_property
    def copy_gb_per_s(self) -> float:
        """10^9 bytes per second of a copy, measured in this run."""
        return copy_gb_per_s()

    @property
    def bytes_per_s(self) -> float:
        """The same in bytes."""
        return self.copy_gb_per_s * 1e9

    def add(self, model: str | None, what: str, value: float | None, unit: str, **others: Any) -> Figure:
        """Keep a figure; `others` are fields of `Figure`."""
        figure = Figure(part=self.part, model=model, what=what, value=value, unit=unit, **others)
        self.figures.append(figure)
        return figure

    def fail(self, case: str, error: str) -> None:
        """Keep that a case failed, and tell."""
        self.failures.append({"case": case, "error": error})
        print(f"Error: {self.part}: {case}: {error}", file=sys.stderr, flush=True)

    def each(self, cases: Iterable[T], name: Callable[[T], str], measure: Callable[[T], None]) -> None:
        """Measure case after case while there is time; what fails is kept, and leaves the others theirs."""
        remaining = iter(cases)
        while True:
            case = self._tried("the next case and those after it", lambda: next(remaining, None))
            if case is None:
                return
            if time.perf_counter() > self._deadline:
                self.cut.append(name(case))
                continue
            print(f"{self.part}: {name(case)} ...", file=sys.stderr, flush=True)
            self._tried(name(case), lambda case=case: measure(case))
            _free_memory()
            self.save()

    def _tried(self, case: str, run: Callable[[], R]) -> R | None:
        try:
            return run()
        except Exception as error:  # what a GPU, its compiler and its allocator raise has no root in common
            told = f"{type(error).__name__}: {error}"
        # Outside of the handler, whose traceback would keep the tensors of the failed case.
        self.fail(case, told)
        return None

    @contextmanager
    def listening(self) -> Generator[None]:
        """Meanwhile count as a failure what an op says that runs as torch's reference on a GPU."""
        listener = _Listener(self)
        _KERNELS_LOGGER.addHandler(listener)
        try:
            yield
        finally:
            _KERNELS_LOGGER.removeHandler(listener)

    def as_json(self) -> dict[str, Any]:
        """Return everything, and where it was measured."""
        return {
            "part": self.part,
            "device": device_name(),
            "versions": versions(),
            "kernels": _kernels(),
            "weights": WEIGHTS,
            "copy_gb_per_s": self.__dict__.get("copy_gb_per_s"),
            "seconds": time.perf_counter() - self._start,
            "facts": self.facts,
            "rows": [_row(figure) for figure in self.figures],
            "cut": self.cut,
            "failures": self.failures,
        }

    def save(self) -> None:
        """Write the file anew."""
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self.as_json(), indent=2) + "\n", encoding="utf-8")


class _Listener(logging.Handler):
    """Keeps warnings of the kernels as failures: where torch's reference computes an op, the figures are not ours."""

    def __init__(self, report: PartReport) -> None:
        super().__init__(logging.WARNING)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        self._report.fail("an op", record.getMessage())


def _kernels() -> str:
    """Say what computes the ops."""
    if device().type == "cpu":
        return "a CPU's"
    reason = reason_without_triton()
    return "Triton's" if reason is None else f"torch's reference: {reason}"


def table(report: dict[str, Any]) -> str:
    """Write a part's JSON as lines."""
    copied = report["copy_gb_per_s"]
    lines = [
        f"{report['part']}: {report['device']}; torch {report['versions']['torch']}, triton "
        f"{report['versions']['triton']}; kernels {report['kernels']}; weights {report['weights']}"
        + (f"; copy {copied:,.0f} GB/s" if copied else "")
        + f"; {report['seconds']:.0f} s",
        *(f"  {name}: {fact}" for name, fact in report["facts"].items()),
    ]
    if report["rows"]:
        lines.append(
            f"{'model':<12}{'what':<52}{'batch':>6}{'context':>8}{'value':>12}  {'unit':<10}{'of limit':>9}"
            f"{'target':>12}{'reached':>9}"
        )
    lines += [_line(row) for row in report["rows"]]
    judged = [row["reached"] for row in report["rows"] if row["reached"] is not None]
    if judged:
        lines.append(f"{sum(judged)} of {len(judged)} targets reached")
    lines += [f"not reached in time: {case}" for case in report["cut"]]
    lines += [f"Error: {failure['case']}: {failure['error']}" for failure in report["failures"]]
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    value, target = row["value"], row["target"]
    share = "-" if row["share_of_limit"] is None else f"{row['share_of_limit']:.0%}"
    reached = {None: "-", True: "yes", False: "NO"}[row["reached"]]
    asked = "-" if target is None else f"{'<=' if row['is_target_most'] else '>='}{_number(target)}"
    note = f"  {row['note']}" if row["note"] else ""
    return (
        f"{row['model'] or '-':<12}{row['what']:<52}{row['batch'] or '-':>6}{row['context'] or '-':>8}"
        f"{'-' if value is None else _number(value):>12}  {row['unit']:<10}{share:>9}{asked:>12}{reached:>9}{note}"
    )


def _number(value: float) -> str:
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"


def _row(figure: Figure) -> dict[str, Any]:
    row = {**asdict(figure), "share_of_limit": figure.share_of_limit, "reached": figure.reached}
    # JSON has no word for NaN and infinity.
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()
    }


def _free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
