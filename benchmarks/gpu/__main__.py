"""Measures everything that is claimed of a GPU, part by part, into JSON files and pictures.

python -m benchmarks.gpu --out gpu-report
python -m benchmarks.gpu --part decode --models qwen3-8b
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from benchmarks.gpu.plots import draw, reason_without_plots
from benchmarks.gpu.report import PartReport, table
from benchmarks.gpu.settings import FULL, PARTS, REAL_MODELS, TINY

from sureact.cli.option_fields import positive_int

ROOT = Path(__file__).parents[2]
PART_SECONDS = 390
GRACE_SECONDS = 75
"""For the case that runs when a part's time is over; then the part is ended. Together less than 8 minutes."""


def main() -> int:
    """Measure the parts that were asked for and print them; 1 if anything failed."""
    arguments = _parser().parse_args()
    if not arguments.tiny and not torch.cuda.is_available():
        print("Error: there is no CUDA device; with --tiny everything runs once, small, on this CPU.", file=sys.stderr)
        return 1
    parts: list[str] = list(dict.fromkeys(arguments.part or PARTS))
    reason = reason_without_plots()
    if reason is not None and not arguments.quiet:
        print(reason, file=sys.stderr)
    reports: list[dict[str, Any]] = []
    for part in parts:
        # Each in a process of its own, since what breaks a GPU's context breaks it for the whole process.
        report = measure_here(part, arguments) if len(parts) == 1 else measure_apart(part, arguments)
        reports.append(report)
        if reason is None and not arguments.quiet:
            _draw(report, arguments.out / f"{part}.png")
        if not arguments.json and not arguments.quiet:
            print(table(report), flush=True)
    if arguments.json and not arguments.quiet:
        print(json.dumps(reports, indent=2))
    return 1 if any(report["failures"] for report in reports) else 0


def measure_here(part: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one part in this process."""
    report = PartReport(part, seconds=arguments.seconds, path=arguments.out / f"{part}.json")
    settings = TINY if arguments.tiny else FULL
    models = arguments.models or (["tiny"] if arguments.tiny else list(REAL_MODELS))
    with report.listening():
        report.each([part], str, lambda name: import_module(f"benchmarks.gpu.{name}").measure(report, models, settings))
    return report.as_json()


def measure_apart(part: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one part in a process of its own; what it had found when it died or was ended is kept."""
    path: Path = arguments.out / f"{part}.json"
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.gpu", "--part", part, "--out", str(arguments.out.resolve())]
    command += ["--seconds", str(arguments.seconds), "--quiet", *(["--tiny"] if arguments.tiny else [])]
    command += ["--models", *arguments.models] if arguments.models else []
    failure = None
    try:
        status = subprocess.run(command, cwd=ROOT, timeout=arguments.seconds + GRACE_SECONDS, check=False).returncode
        if status not in (0, 1) or not path.is_file():
            failure = f"its process ended with status {status}"
    except subprocess.TimeoutExpired:
        failure = f"its process was ended after {arguments.seconds + GRACE_SECONDS} s; what it had found is kept"
    found = path.read_text(encoding="utf-8") if path.is_file() else None
    report: dict[str, Any] = json.loads(found) if found else PartReport(part, seconds=0).as_json()
    if failure is not None:
        report["failures"].append({"case": part, "error": failure})
        print(f"Error: {part}: {failure}", file=sys.stderr)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return report


def _draw(report: dict[str, Any], path: Path) -> None:
    try:
        draw(report, path)
    except Exception as error:  # a picture that cannot be drawn takes no figure with it
        print(f"No plot of {report['part']}: {type(error).__name__}: {error}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", nargs="+", action="extend", choices=PARTS, help="these parts only (default: all)")
    parser.add_argument(
        "--models",
        nargs="+",
        action="extend",
        choices=(*REAL_MODELS, "tiny"),
        help="whose shapes, with random weights (default: all)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("gpu-report"),
        metavar="FOLDER",
        help="gets PART.json and PART.png (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=positive_int,
        default=PART_SECONDS,
        metavar="N",
        help="after which a part begins nothing more; what it leaves out is said (default: %(default)s)",
    )
    parser.add_argument("--tiny", action="store_true", help="run everything once at tiny sizes, on a CPU, too")
    parser.add_argument("--json", action="store_true", help="print one JSON array instead of tables")
    parser.add_argument("--quiet", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
