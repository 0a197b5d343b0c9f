"""Where a command writes: results to standard output, everything else to standard error."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sureact.visible_text import visible

if TYPE_CHECKING:
    from rich.console import Console


def add_output_options(parser: argparse.ArgumentParser, *, json_help: str | None = None) -> None:
    """Add `--verbose`, and `--json` where a command has something to write for machines."""
    if json_help:
        parser.add_argument("--json", action="store_true", help=f"write {json_help} as JSON")
    parser.add_argument(
        "--verbose", action="store_true", help="show where the time of the model went, and the traceback of an error"
    )


def write_result(text: str, *, end: str = "\n") -> None:
    """Write to standard output at once; as it is into a file or pipe, and made visible on a terminal."""
    sys.stdout.write((visible(text) if sys.stdout.isatty() else text) + end)
    sys.stdout.flush()


def write_json(value: object) -> None:
    """Write a value to standard output as one JSON document; paths, dates and the like as text."""
    from pydantic_core import to_jsonable_python

    plain = to_jsonable_python(value, fallback=str)
    write_result(json.dumps(plain, ensure_ascii=False, indent=2))


def note(text: str) -> None:
    """Write a line to standard error."""
    print(visible(text), file=sys.stderr, flush=True)


def ask(question: str) -> str | None:
    """Ask on standard error and return the line that standard input answers; None at its end."""
    sys.stderr.write(visible(question))
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        sys.stderr.write("\n")  # nobody ended the line of the question
        return None
    return line.strip()


def error_console() -> Console:
    """Return a console on standard error that takes text as it is: no markup, no highlighting, no wrapping."""
    return _console(is_error=True)


def output_console() -> Console:
    """Return such a console on standard output."""
    return _console(is_error=False)


def _console(*, is_error: bool) -> Console:
    from rich.console import Console

    return Console(stderr=is_error, markup=False, emoji=False, highlight=False, soft_wrap=True)


@contextmanager
def working(what: str) -> Generator[Callable[[str], None]]:
    """Say on standard error that something takes a while: a spinner on a terminal, a line elsewhere.

    Yields what says how far it is.
    """
    console = error_console()
    if not console.is_terminal:
        note(f"{what} ...")
        yield note
        return
    with console.status(f"{what} ...") as status:
        yield lambda step: status.update(f"{step} ...")


def table_text(rows: Sequence[Sequence[str]]) -> str:
    """Lay out rows in columns as wide as their widest cell, two blanks apart; the first row is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
