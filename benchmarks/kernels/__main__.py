"""Measures every op alone at a model's shapes, beside the bandwidth of the memory and beside torch.

python -m benchmarks.kernels --op linear --model qwen3-8b
python -m benchmarks.kernels --compile-only sm_90
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import torch
from benchmarks.harness import device
from benchmarks.kernels.case import MODELS, Case
from benchmarks.kernels.cases import CASES
from benchmarks.kernels.timing import How, copy_gb_per_s, least_us, timed

from sureact.cli.option_fields import positive_int
from sureact.evaluation.machine import versions
from sureact_kernels.dispatch import disabled


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one case."""

    op: str
    model: str
    shape: str
    us: float
    """Microseconds, the median."""
    spread: float
    """Between the slowest and the fastest call, as a share of the median."""
    how: How
    gb_per_s: float
    """10^9 bytes per second of what the op must read and write at least."""
    share_of_copy: float
    """Of the bandwidth of a copy."""
    tflop_per_s: float
    torch_us: float
    ratio_to_torch: float
    """Torch's time over ours: above 1 is good for us."""


def main() -> int:
    """Measure or compile what was asked for and print it; 1 if any case failed."""
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.compile_only:
        return compile_only(arguments.compile_only, arguments.op, as_json=arguments.json)
    ops: list[str] = arguments.op or list(CASES)
    if unknown := set(ops) - set(CASES):
        parser.error(f"no such op: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    models = arguments.model or (["qwen3-0.6b"] if device().type == "cpu" else ["qwen3-0.6b", "qwen3-8b"])
    torch.manual_seed(0)
    measurer = Measurer(copy_gb_per_s(), least_us(), arguments.repeats)
    for model in models:
        for op in ops:
            measurer.measure_op(op, model, CASES[op](MODELS[model]))
    report = measurer.report()
    print(json.dumps(report, indent=2) if arguments.json else table(report))
    return 1 if report["failures"] else 0


class Measurer:
    """Measures ops one after another and keeps what was found."""

    def __init__(self, copied: float, least: float, repeats: int) -> None:
        """Start with nothing measured.

        Args:
            copied: 10^9 bytes per second of a copy, in this run.
            least: microseconds that are measured of an op that does nothing.
            repeats: calls of each case.
        """
        self._copied, self._least, self._repeats = copied, least, repeats
        self._rows: list[Row] = []
        self._failures: list[dict[str, str]] = []

    def measure_op(self, op: str, model: str, cases: Iterator[Case]) -> None:
        """Check and time an op's cases; what fails is told, and leaves the others their figures."""
        try:
            for case in cases:
                print(f"{model} {op} {case.shape} ...", file=sys.stderr, flush=True)
                try:
                    self._rows.append(self._measure(op, model, case))
                except Exception as error:  # what a GPU, its compiler and its allocator raise has no root in common
                    self._fail(op, model, case.shape, error)
        except Exception as error:  # the same, while a case is made
            self._fail(op, model, "the next case", error)
        gc.collect()

    def _fail(self, op: str, model: str, shape: str, error: Exception) -> None:
        told = f"{type(error).__name__}: {error}"
        self._failures.append({"op": op, "model": model, "shape": shape, "error": told})
        print(f"Error: {model} {op} {shape}: {told}", file=sys.stderr)

    def _measure(self, op: str, model: str, case: Case) -> Row:
        case.check()
        timing, how = timed(case.run, repeats=self._repeats)
        in_torch, _ = timed(case.in_torch, repeats=self._repeats)
        gb_per_s = case.num_bytes / timing.median / 1e9
        return Row(
            op=op,
            model=model,
            shape=case.shape,
            us=timing.median * 1e6,
            spread=timing.spread,
            how=how,
            gb_per_s=gb_per_s,
            share_of_copy=gb_per_s / self._copied,
            tflop_per_s=case.flops / timing.median / 1e12,
            torch_us=in_torch.median * 1e6,
            ratio_to_torch=in_torch.median / timing.median,
        )

    def report(self) -> dict[str, Any]:
        """Return everything that was measured, and where."""
        return {
            "device": device_name(),
            "num_threads": torch.get_num_threads(),
            "versions": versions(),
            "weights": "random, of the models' shapes",
            "copy_gb_per_s": self._copied,
            "least_us": self._least,
            "rows": [asdict(row) for row in self._rows],
            "failures": self._failures,
            "off": disabled(),
        }


def compile_only(target: str, ops: list[str] | None, *, as_json: bool) -> int:
    """Compile every kernel for a GPU that need not be there and print what a thread takes; 1 if any failed.

    Args:
        target: `sm_80` or the like.
        ops: those whose cases are compiled, or None for all.
        as_json: prints one JSON object instead of a table.
    """
    if find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") == "1":
        print("Error: kernels compile where Triton is installed and TRITON_INTERPRET is not 1.", file=sys.stderr)
        return 1
    from sureact_kernels.triton.aot import Compiled, cases, compile_case

    rows: list[dict[str, Any]] = []
    for case in cases():
        if ops and case.name.split()[0] not in ops:
            continue
        print(f"{case.name} ...", file=sys.stderr, flush=True)
        try:
            rows.append({"name": case.name, **compile_case(case, int(target.removeprefix("sm_")))._asdict()})
        except Exception as error:  # whatever a compiler raises; the other kernels are listed nevertheless
            rows.append({"name": case.name, "error": f"{type(error).__name__}: {error}"})
    if as_json:
        print(json.dumps({"target": target, "versions": versions(), "kernels": rows}, indent=2))
    else:
        print(f"{'kernel, ' + target:<56}" + "".join(f"{column:>13}" for column in Compiled._fields))
    for row in () if as_json else rows:
        found = (
            "".join(f"{round(row[column], 2):>13}" for column in Compiled._fields)
            if "error" not in row
            else row["error"]
        )
        print(f"{row['name']:<56}{found}")
    return 1 if not rows or any("error" in row for row in rows) else 0


def device_name() -> str:
    """Return what `device()` is called."""
    if device().type == "cuda":
        return torch.cuda.get_device_name()
    from sureact.evaluation.machine import cpu_name

    return cpu_name()


def table(report: dict[str, Any]) -> str:
    """Write what was measured and the machine that it belongs to."""
    installed = report["versions"]
    lines = [
        f"{report['device']}; torch {installed['torch']}, triton {installed['triton']}, random weights; "
        f"copy {report['copy_gb_per_s']:.0f} GB/s; nothing measures below {report['least_us']:.1f} us",
        *(f"{op} runs as torch's reference: {reason}" for op, reason in report["off"].items()),
        f"{'model':<12}{'op':<20}{'shape':<56}{'us':>10}{'spread':>8}{'GB/s':>9}{'of copy':>9}{'TFLOP/s':>9}"
        f"{'x torch':>9}",
    ]
    lines += [
        f"{row['model']:<12}{row['op']:<20}{row['shape']:<56}{row['us']:>10.1f}{row['spread']:>8.0%}"
        f"{row['gb_per_s']:>9.1f}{row['share_of_copy']:>9.0%}{row['tflop_per_s']:>9.2f}{row['ratio_to_torch']:>9.2f}"
        for row in report["rows"]
    ]
    return "\n".join(lines)


def _target(text: str) -> str:
    if not re.fullmatch(r"sm_\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no GPU; write sm_80 for an A100, sm_90 for an H100 or H200")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("--op", action="append", metavar="OP", help="this op only; repeatable (default: all)")
    parser.add_argument(
        "--model",
        action="append",
        choices=MODELS,
        help="whose shapes; repeatable (default: qwen3-0.6b, on a GPU qwen3-8b, too)",
    )
    parser.add_argument(
        "--repeats", type=positive_int, default=20, metavar="N", help="calls of each (default: %(default)s)"
    )
    parser.add_argument(
        "--compile-only",
        type=_target,
        metavar="sm_90",
        help="compile every kernel for this GPU, which need not be there",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
