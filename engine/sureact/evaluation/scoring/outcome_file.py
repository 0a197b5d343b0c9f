"""Outcomes on disk, a line of JSON each: what is there is not run again."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from sureact.errors import ConfigError
from sureact.evaluation.scoring.outcome import CaseKey, Outcome

_LINE_START = '{"model": "'
_OUTCOME_NAMES = tuple(field.name for field in fields(Outcome))


class OutcomeFile:
    """The outcomes of earlier runs, and those of this one as they come. For one process at a time."""

    def __init__(self, path: Path) -> None:
        """Read the file; there need not be one. A line that was cut off is left out, and ended.

        Raises:
            ConfigError: it cannot be read or written, or a line is no outcome.
        """
        self.path = path
        self._outcomes: dict[CaseKey, Outcome] = {}
        self._asked: set[CaseKey] = set()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        except OSError as error:
            raise self._unusable(error) from error
        for number, line in enumerate(text.split("\n"), start=1):
            if line and not _is_cut_off(line):
                self._read(line, number)
        try:
            self._file = path.open("a", encoding="utf-8")
            if text and not text.endswith("\n"):
                self._file.write("\n")
        except OSError as error:
            raise self._unusable(error) from error

    def __len__(self) -> int:
        return len(self._outcomes)

    def get(self, key: CaseKey) -> Outcome | None:
        """Return the outcome of a case, if it is known."""
        return self._outcomes.get(key)

    def is_outdated(self, key: CaseKey) -> bool:
        """Whether a case has outcomes here, all of another version of the evaluation, or of other files or settings."""
        return key not in self._outcomes and key.case_asked in self._asked

    def add(self, key: CaseKey, outcome: Outcome) -> None:
        """Keep an outcome, on disk before this returns.

        Raises:
            ConfigError: it cannot be written.
        """
        record = key._asdict() | asdict(outcome)
        try:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
        except OSError as error:
            raise ConfigError(f"The results file {self.path} cannot be written: {error}.") from error
        self._keep(key, outcome)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _unusable(self, error: OSError) -> ConfigError:
        return ConfigError(f"The results file {self.path} cannot be used: {error}.")

    def _keep(self, key: CaseKey, outcome: Outcome) -> None:
        self._outcomes[key] = outcome
        self._asked.add(key.case_asked)

    def _read(self, line: str, number: int) -> None:
        try:
            record: dict[str, Any] = json.loads(line)
            key = CaseKey(**{name: record[name] for name in CaseKey._fields if name in record})
            self._keep(key, Outcome(**{name: record[name] for name in _OUTCOME_NAMES}))
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"Line {number} of the results file {self.path} is no outcome of an evaluation. Give another file with "
                "--results, or remove this one."
            ) from error


def _is_cut_off(line: str) -> bool:
    """Whether a run was killed while it wrote this line: it begins as an outcome does and ends too early."""
    shared = min(len(line), len(_LINE_START))
    return line[:shared] == _LINE_START[:shared] and not line.endswith("}")
