"""`sureact conformance`: schemas with valid and invalid instances, and what is accepted, refused, missed."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sureact.cli.console import add_output_options, error_console, note, table_text, working, write_json, write_result
from sureact.cli.model_options import SMALL_MODEL
from sureact.errors import ConfigError, ModelNotFoundError, SureactError

if TYPE_CHECKING:
    from sureact.evaluation.conformance.case_files import CaseFiles
    from sureact.evaluation.conformance.cases import ConformanceCase
    from sureact.evaluation.conformance.judging import Finding
    from sureact.evaluation.conformance.run import ConformanceRun
    from sureact.evaluation.conformance.runner import RunnerSettings

_ENGINES = ("sureact", "llguidance", "xgrammar", "outlines")
_NAMED_AT_MOST = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.description = (
        "Writes the valid and invalid instances of many schemas, byte by byte, and counts which were accepted. Reads "
        "MaskBench files, JSON-Schema-Test-Suite files and raw-text cases; whitespace is free."
    )
    parser.add_argument("path", type=Path, metavar="PATH", help="a file, a folder, or a tar archive of JSON files")
    parser.add_argument(
        "--engine", choices=_ENGINES, default="sureact", help="this one or a peer as it comes (default: %(default)s)"
    )
    parser.add_argument(
        "--key-order",
        choices=("schema", "any"),
        default="schema",
        help="the order of keys in objects (default: %(default)s)",
    )
    parser.add_argument(
        "--reorder", action="store_true", help="put the keys of each instance into the order of its schema first"
    )
    parser.add_argument(
        "--format",
        choices=("assert", "annotate"),
        default="assert",
        help="whether known formats are enforced (default: %(default)s)",
    )
    parser.add_argument(
        "--close", action="store_true", help="forbid undeclared keys as tools do, where a schema does not say"
    )
    parser.add_argument(
        "--remotes",
        type=Path,
        metavar="DIR",
        help="schemas that references may point to: by their $id, and as http://localhost:1234/FILE",
    )
    parser.add_argument(
        "--model",
        default=os.environ.get("SUREACT_MODEL"),
        metavar="NAME",
        help="cut the instances into this model's tokens (default: $SUREACT_MODEL, else bytes)",
    )
    parser.add_argument("--failures", type=Path, metavar="FILE", help="write each miss as a line of JSON")
    parser.add_argument(
        "--fail-under", type=_percent, metavar="P", help="exit with 1 when less than P percent of the schemas pass"
    )
    add_output_options(parser, json_help="all counts")
    parser.set_defaults(command=conformance_command)


def conformance_command(arguments: argparse.Namespace) -> None:
    """Run the cases and write the counts.

    Raises:
        SureactError: fewer schemas pass than `--fail-under` asks for, or a file could not be read.
    """
    from sureact.evaluation.conformance.case_files import opened_cases
    from sureact.evaluation.conformance.run import make_runner, run_conformance

    settings = _settings(arguments)
    with (
        opened_cases(arguments.path) as files,
        _failures_file(arguments.failures) as on_finding,
        _no_warnings(),
        ExitStack() as stack,
    ):
        _note_left_out(files)
        with working(f"Loading {arguments.engine}"):
            runner = stack.enter_context(closing(make_runner(settings)))
        with _progress(files.num_cases) as on_case:
            run = run_conformance(files, runner, reorder=arguments.reorder, on_finding=on_finding, on_case=on_case)
    if arguments.json:
        write_json(
            {**run.report.as_dict(), "engine": arguments.engine, "peak_memory_mb": round(run.peak_memory_bytes / 1e6)}
            | {"timing_vocabulary": run.timing_vocabulary, "damaged_files": len(files.damaged)}
        )
    else:
        write_result(table_text(_rows(run, arguments.engine)))
    wanted = arguments.fail_under
    if wanted is not None and run.report.passing_percent < wanted:
        raise SureactError(f"{run.report.passing_percent:.2f} % of the schemas pass, less than {wanted:g} %.")
    if files.damaged:
        raise SureactError(f"{_files(len(files.damaged))} left out, as said above. Repair or remove what is damaged.")


def _settings(arguments: argparse.Namespace) -> RunnerSettings:
    from sureact.evaluation.conformance.case_files import read_remotes
    from sureact.evaluation.conformance.runner import RunnerSettings
    from sureact.evaluation.conformance.schema_engine import SchemaPolicy

    policy = SchemaPolicy(
        key_order=arguments.key_order,
        format=arguments.format,
        closed=arguments.close,
        resources=read_remotes(arguments.remotes) if arguments.remotes else {},
    )
    if arguments.engine != "sureact" and policy != SchemaPolicy():
        raise ConfigError(
            f"--key-order, --format, --close and --remotes are options of sureact; {arguments.engine} runs as it comes."
        )
    text_model = _model_folder(arguments.model) if arguments.model else None
    return RunnerSettings(
        engine=arguments.engine, policy=policy, text_model=text_model, timing_model=text_model or _default_folder()
    )


def _model_folder(name: str) -> Path:
    from sureact.catalog.resolve import model_folder, resolve_model
    from sureact.catalog.store import ModelStore
    from sureact.weights.gguf_conversion import convert_gguf

    store = ModelStore()
    return model_folder(resolve_model(name, store), store, convert=convert_gguf)


def _default_folder() -> Path | None:
    try:
        return _model_folder(SMALL_MODEL)
    except ModelNotFoundError:
        note(f"Times are measured with the 256 bytes; `sureact pull {SMALL_MODEL}` brings a vocabulary of a model.")
        return None


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 100")
    return value


def _note_left_out(files: CaseFiles) -> None:
    for reason in files.damaged:
        note(f"Left out: {reason}")
    if files.ignored:
        note(f"Ignored, being no cases: {_named(files.ignored)}.")
    if files.optional:
        note(f"Left out, being in a folder named 'optional': {_named(files.optional)}. Give that folder to run them.")


def _named(names: tuple[str, ...]) -> str:
    rest = len(names) - _NAMED_AT_MOST
    return ", ".join(names[:_NAMED_AT_MOST]) + (f" and {rest:,} more" if rest > 0 else "")


@contextmanager
def _failures_file(path: Path | None) -> Generator[Callable[[ConformanceCase, Finding], None]]:
    """Open the file that gets a line per miss; with None, misses are only counted."""
    if path is None:
        yield lambda case, finding: None
        return
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--failures {path} cannot be written: {error}.") from error
    with file:
        yield lambda case, finding: _write_finding(file, case, finding)


def _write_finding(file: TextIO, case: ConformanceCase, finding: Finding) -> None:
    line = {
        "file": case.file,
        "case": case.name,
        "reason": finding.reason,
        "instance": finding.instance,
        "detail": finding.detail,
    }
    # With escapes: an instance may hold half of a surrogate pair, which no file can.
    file.write(json.dumps(line) + "\n")


@contextmanager
def _no_warnings() -> Generator[None]:
    """Hold back what is said of single schemas: a corpus is full of misspelled keywords."""
    logger = logging.getLogger("sureact")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _progress(total: int) -> Generator[Callable[[], None]]:
    """Show on standard error how many cases are done: a bar on a terminal, one line elsewhere."""
    console = error_console()
    if not console.is_terminal:
        note(f"Running {total:,} schemas ...")
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("schemas"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("schemas", total=total)
        yield lambda: progress.advance(task)


def _rows(run: ConformanceRun, engine: str) -> list[tuple[str, str]]:
    report = run.report
    vocabulary = "a model's vocabulary" if run.timing_vocabulary == "model" else "the 256 bytes"
    counts = report.as_dict()
    return [
        ("engine", engine),
        ("schemas", f"{report.schemas:,}"),
        ("passing", f"{report.passing:,} ({report.passing_percent:.2f} %)"),
        ("compile errors", f"{report.compile_errors:,}"),
        ("unsatisfiable", f"{report.unsatisfiable:,}, refused as such"),
        ("guarded", f"{report.guarded_schemas:,}"),
        (
            "valid rejected",
            f"{report.rejected_valid:,} of {report.valid_instances:,}, {_in(report.rejects_valid_schemas)}",
        ),
        (
            "invalid accepted",
            f"{report.accepted_invalid:,} of {report.invalid_instances:,}, {_in(report.accepts_invalid_schemas)}",
        ),
        ("late vetoes", f"{report.late_vetoes:,} of {report.guarded_invalid_instances:,} invalid under a guard"),
        ("compile", f"{_times(counts['compile_ms'], 'ms')} ({report.timed_schemas:,} schemas, {vocabulary})"),
        ("mask", _times(counts["mask_us"], "us")),
        ("peak memory", f"{run.peak_memory_bytes / 1e6:,.0f} MB"),
    ]


def _files(number: int) -> str:
    return f"{number:,} file was" if number == 1 else f"{number:,} files were"


def _in(num_schemas: int) -> str:
    return f"in {num_schemas:,} schema{'' if num_schemas == 1 else 's'}"


def _times(figures: object, unit: str) -> str:
    assert isinstance(figures, dict)
    named = ", ".join(f"{name} {value:,.2f}" for name, value in figures.items() if value is not None)
    return f"{named} {unit}" if named else "not measured"
