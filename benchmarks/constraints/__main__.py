"""Compares what schemas accept and how fast: sureact, llguidance, xgrammar and outlines on the same files.

python -m benchmarks.constraints FOLDER --sample 1000 --json
"""

import argparse
import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import get_args

from benchmarks.constraints.comparison import Settings, compare, num_compared
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from sureact.catalog.resolve import model_folder, resolve_model
from sureact.catalog.store import ModelStore
from sureact.cli.console import error_console, note, working
from sureact.cli.model_options import SMALL_MODEL
from sureact.cli.option_fields import positive_int
from sureact.errors import ModelNotFoundError, SureactError
from sureact.evaluation.conformance.case_files import opened_cases
from sureact.evaluation.conformance.schema_engine import EngineName
from sureact.evaluation.machine import hardware, versions
from sureact.weights.gguf_conversion import convert_gguf

ROOT = Path(__file__).parents[2]
OWN_CORPUS = ROOT / "tests" / "data" / "schemas"
RESULTS = ROOT / "benchmarks" / "results" / "constraints.jsonl"

_SECONDS_BETWEEN_LINES = 10.0
_COLUMNS = (
    ("engine", "engine", "{}"),
    ("passing %", "passing_percent", "{:.2f}"),
    ("compile errors", "compile_errors", "{:,}"),
    ("reject valid", "rejects_valid_schemas", "{:,}"),
    ("accept invalid", "accepts_invalid_schemas", "{:,}"),
    ("invalid accepted", "accepted_invalid", "{:,}"),
    ("compile ms p50", "compile_p50", "{:.2f}"),
    ("p99", "compile_p99", "{:.1f}"),
    ("mask us p50", "mask_p50", "{:.1f}"),
    ("p99", "mask_p99", "{:.0f}"),
    ("memory MB", "peak_memory_mb", "{:,}"),
)


def main() -> int:
    """Run every engine over the files, print the table, and append the result to the file of results."""
    arguments = _parser().parse_args()
    try:
        settings = Settings(
            engines=tuple(arguments.only or get_args(EngineName)),
            sample=arguments.sample,
            key_order=arguments.key_order,
            reorder=arguments.reorder,
            time_limit_s=arguments.time_limit,
            timing_model=_timing_model(arguments.model),
        )
        with working(f"Reading {arguments.path}"), ExitStack() as stack:
            files = stack.enter_context(opened_cases(arguments.path))
            kept = stack.pop_all()
        for reason in files.damaged:
            note(f"Left out: {reason}")
        with kept, _progress(num_compared(files, settings)) as on_case:
            compared = compare(files, settings, on_case=on_case)
    except SureactError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "command": shlex.join(["python", "-m", "benchmarks.constraints", *sys.argv[1:]]),
        "timing_vocabulary": arguments.model if settings.timing_model else "bytes",
        "versions": versions() | {name: _version(name) for name in ("xgrammar", "outlines_core")},
        "hardware": hardware(),
        **compared,
    }
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")
    print(json.dumps(result, indent=2) if arguments.json else _table(compared))
    return 1 if files.damaged else 0


@contextmanager
def _progress(total: int) -> Generator[Callable[[EngineName], None]]:
    """Show on standard error how far each engine is: a bar on a terminal, now and then a line elsewhere."""
    console = error_console()
    note(f"Starting the engines, each in a process of its own, for {total:,} schemas ...")
    if not console.is_terminal:
        yield _line_now_and_then(total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        tasks: dict[EngineName, TaskID] = {}

        def advance(engine: EngineName) -> None:
            if engine not in tasks:
                tasks[engine] = progress.add_task(engine, total=total)
            progress.advance(tasks[engine])

        yield advance


def _line_now_and_then(total: int) -> Callable[[EngineName], None]:
    done: Counter[EngineName] = Counter()
    last_said = time.monotonic()

    def count(engine: EngineName) -> None:
        nonlocal last_said
        done[engine] += 1
        if time.monotonic() - last_said > _SECONDS_BETWEEN_LINES or done.total() == total * len(done):
            last_said = time.monotonic()
            note(f"Of {total:,} schemas: " + ", ".join(f"{name} {number:,}" for name, number in sorted(done.items())))

    return count


def _timing_model(name: str) -> Path | None:
    store = ModelStore()
    try:
        return model_folder(resolve_model(name, store), store, convert=convert_gguf)
    except ModelNotFoundError as error:
        print(f"{error} Times are measured with the 256 bytes.", file=sys.stderr)
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _table(compared: dict[str, object]) -> str:
    engines, beside_raw = compared["engines"], compared["beside_raw"]
    assert isinstance(engines, list)
    rows = [[title for title, _, _ in _COLUMNS]]
    reasons: list[str] = []
    for row in engines:
        rows.append(["-" if row.get(key) is None else form.format(row[key]) for _, key, form in _COLUMNS])
        reasons += [f"{row['engine']}: {row['reason']}"] if row["reason"] else []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines.append(f"{compared['schemas']:,} schemas; each engine in a process of its own")
    if isinstance(beside_raw, dict):
        lines.append(
            "beside raw llguidance, on the {schemas:,} timed schemas that both compile: compile p50 x "
            "{compile_p50_ratio:.2f}, p99 x {compile_p99_ratio:.2f}; mask p50 {mask_p50_difference_us:+.2f} us".format(
                **beside_raw
            )
        )
    return "\n".join([*lines, *reasons])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.constraints", description=__doc__)
    parser.add_argument(
        "path",
        nargs="?",
        type=Path,
        default=OWN_CORPUS,
        metavar="PATH",
        help="as `sureact conformance PATH` (default: the schemas of the tests)",
    )
    parser.add_argument("--sample", type=positive_int, metavar="N", help="schemas, evenly spread (default: all)")
    parser.add_argument(
        "--only", action="append", choices=get_args(EngineName), help="this engine only; repeatable (default: all)"
    )
    parser.add_argument(
        "--key-order", choices=("schema", "any"), default="schema", help="of sureact (default: %(default)s)"
    )
    parser.add_argument(
        "--reorder", action="store_true", help="put the keys of instances into the order of their schema, for all"
    )
    parser.add_argument(
        "--time-limit", type=float, default=10.0, metavar="S", help="seconds per schema (default: %(default)s)"
    )
    parser.add_argument(
        "--model", default=SMALL_MODEL, help="whose vocabulary the times are measured with (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
