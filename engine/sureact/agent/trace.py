"""An append-only JSON Lines file of a run: each part is on disk before the next one begins.

The first record is `header` (format version, model, tools, inputs). Then per step `thought`, `call_started` (written
before the tool runs) and `observation`; `truncated` when steps were dropped; at the end `outputs`, or `aborted`. Each
record has the `run_id` of its run, because several runs may append to one file, even at the same time.
"""

from __future__ import annotations

import json
import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from sureact.errors import TraceError

TRACE_VERSION = 1
_HEADER_START = '{"type": "header"'


class TraceWriter:
    """Appends records to a trace file, each flushed to the operating system as it is written."""

    def __init__(self, path: str | Path) -> None:
        """Open the file for appending, making its folder if there is none. A last line that was cut off is ended.

        Raises:
            TraceError: the file cannot be opened.
        """
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # What UTF-8 cannot hold is written as JSON escapes it.
            self._file = self.path.open("a", encoding="utf-8", errors="backslashreplace")
            if _is_cut_off(self.path):
                self._file.write("\n")
        except OSError as error:
            raise TraceError(f"Trace file {self.path} cannot be written: {error.strerror}.") from error

    def write(self, record_type: str, **values: object) -> None:
        """Append one record, with the time in seconds since the epoch.

        Raises:
            TraceError: the file cannot be written.
        """
        record = {"type": record_type, "time_s": round(time.time(), 3), **values}
        line = json.dumps(to_jsonable_python(record, fallback=repr), ensure_ascii=False)
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:
            raise TraceError(f"Trace file {self.path} cannot be written: {error.strerror}.") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_trace(path: str | Path) -> list[dict[str, Any]]:
    """Return the records of a trace file. A line that was cut off by a crash is left out.

    Such a line is the last one, or stands before the header of the next run.

    Raises:
        TraceError: the file cannot be read, or another line is not a record.
    """
    file = Path(path)
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise TraceError(f"Trace file {file} cannot be read: {error.strerror}.") from error
    # Every whole record ends in a newline, so what follows the last newline is empty or cut off.
    records: list[dict[str, Any]] = []
    for number, (line, next_line) in enumerate(pairwise(lines), start=1):
        try:
            records.append(_record(line, number, file))
        except TraceError:
            if not next_line.startswith(_HEADER_START):
                raise
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
    except json.JSONDecodeError as error:
        raise TraceError(f"Trace file {file}, line {number} is not JSON: {error}.") from error
    if not isinstance(record, dict) or "type" not in record:
        raise TraceError(f"Trace file {file}, line {number} is not a trace record.")
    return record
