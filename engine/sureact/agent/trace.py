"""An append-only JSON Lines file of runs: each part is on disk before the next one begins.

Each record has the `run_id` of its run, because several runs may append to one file, even at the same time. What the
records are stands in `trace_records.py`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from sureact.agent.trace_records import TRACE_VERSION
from sureact.errors import TraceError

# What a process writes first after another one was cut off.
_FIRST_RECORDS = ('{"type": "header"', '{"type": "resumed"')

Clean = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes what must not be written out of a record."""


class TraceWriter:
    """Appends records to a trace file, each handed to the operating system whole as it is written."""

    def __init__(self, path: str | Path, clean: Clean = lambda record: record) -> None:
        """Open the file for appending, making its folder if there is none. A last line that was cut off is ended.

        Args:
            path: the file.
            clean: applied to each record before it is written.

        Raises:
            TraceError: the file cannot be opened.
        """
        self.path = Path(path)
        self._clean = clean
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Without a buffer, so that a record is one write, between whose parts no other run can write.
            self._file = self.path.open("ab", buffering=0)
            if _is_cut_off(self.path):
                self._file.write(b"\n")
        except OSError as error:
            raise TraceError(f"Trace file {self.path} cannot be written: {error.strerror}.") from error

    def write(self, record_type: str, **values: object) -> None:
        """Append one record, with the time in seconds since the epoch.

        Raises:
            TraceError: the file cannot be written.
        """
        record = {"type": record_type, "time_s": round(time.time(), 3), **values}
        line = json.dumps(self._clean(to_jsonable_python(record, fallback=repr)), ensure_ascii=False)
        # What UTF-8 cannot hold is written as JSON escapes it.
        data = memoryview(f"{line}\n".encode(errors="backslashreplace"))
        try:
            while data:  # a disk that is nearly full, or a pipe, may take a part only
                data = data[self._file.write(data) or 0 :]
        except OSError as error:
            raise TraceError(f"Trace file {self.path} cannot be written: {error.strerror}.") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_trace(path: str | Path) -> list[dict[str, Any]]:
    """Return the records of a trace file. A line that was cut off by a crash is left out.

    Such a line is the last one, or stands before the first record of the process that wrote next.

    Raises:
        TraceError: the file cannot be read, another line is not a record, or a later version of sureact wrote it.
    """
    file = Path(path)
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise TraceError(f"Trace file {file} cannot be read: {error.strerror}.") from error
    # Every whole record ends in a newline, so what follows the last newline is empty or cut off.
    # A writer that opened the file while another one wrote has ended a line that was not cut off, so some are empty.
    whole = [(number, line) for number, line in enumerate(lines[:-1], start=1) if line]
    records: list[dict[str, Any]] = []
    for (number, line), (_, next_line) in pairwise([*whole, (len(lines), lines[-1])]):
        try:
            record = _record(line, number, file)
        except TraceError:
            if not next_line.startswith(_FIRST_RECORDS):
                raise
            continue
        _check_version(record, number, file)
        records.append(record)
    return records


def _is_cut_off(file: Path) -> bool:
    if not file.is_file() or file.stat().st_size == 0:  # not a file: a pipe, which has no last line to end
        return False
    with file.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read() != b"\n"


def _record(line: str, number: int, file: Path) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise TraceError(f"Trace file {file}, line {number} is not JSON: {error}.") from error
    if not isinstance(record, dict) or "type" not in record:
        raise TraceError(f"Trace file {file}, line {number} is not a trace record.")
    return record


def _check_version(record: dict[str, Any], number: int, file: Path) -> None:
    version = record.get("version", 1)
    if not isinstance(version, int) or version > TRACE_VERSION:
        raise TraceError(
            f"Trace file {file}, line {number} is of trace version {version!r}; this sureact reads up to version "
            f"{TRACE_VERSION}. It was written by sureact {record.get('sureact_version', 'of a later version')}: "
            "update sureact to read it."
        )
