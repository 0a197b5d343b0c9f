"""Follows a JSON text and refuses what makes it invalid, whatever comes after."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sureact.constraints.guards.guard import Guard, GuardState
from sureact.constraints.guards.json_reader import JsonReader, Position
from sureact.constraints.guards.schema_program import Judgement, SchemaProgram

if TYPE_CHECKING:
    from sureact.constraints.guards.verdict import Verdict
    from sureact.constraints.schema.normal_form import NormalSchema


class JsonGuard(Guard):
    """The whole of a JSON schema, and what every reader of JSON asks for: names once, numbers finite."""

    def __init__(self, schema: NormalSchema, *, ascii_only: bool = False) -> None:
        """Prepare to judge.

        Args:
            schema: its patterns are such that `text_tests.pattern_error` has nothing against them.
            ascii_only: refuse characters outside ASCII, however valid.
        """
        self._program = SchemaProgram(schema)
        self._ascii_only = ascii_only

    def new_state(self) -> JsonGuardState:
        """Return a position at the start of the text."""
        return JsonGuardState(self._program, ascii_only=self._ascii_only)


class JsonGuardState(GuardState):
    """A position in one JSON text."""

    def __init__(self, program: SchemaProgram, *, ascii_only: bool) -> None:
        self._root = program.root
        self._ascii_only = ascii_only
        self._reader = JsonReader()
        self._version = 0
        self._watches_string = True

    def feed(self, data: bytes) -> bool:
        """Read on, and judge what stands then: what is invalid before the end of `data` is invalid at its end."""
        if self._ascii_only and not data.isascii():
            return False
        stays_in_string = self._reader.is_in_string and b'"' not in data
        if not self._reader.read(data):
            return False
        if stays_in_string and not self._watches_string:
            return True
        return self._verdict() is not False

    def can_end(self) -> bool:
        """Whether the value is complete and valid."""
        if not self._reader.is_complete:
            return False
        position = self._reader.position()
        is_valid = self._reader.end() and self._verdict() is True
        self._reader.go_back(position)
        return is_valid

    def position(self) -> Position:
        """Return where the text stands."""
        return self._reader.position()

    def go_back(self, position: object) -> None:
        """Forget what was read after `position`."""
        self._reader.go_back(cast("Position", position))
        self._watches_string = True

    @property
    def num_settled_bytes(self) -> int:
        """Bytes before the outermost open value that can run into a dead end."""
        held = (value.start for value in self._reader.open_values if value.is_held)
        return next(held, self._reader.num_bytes)

    def _verdict(self) -> Verdict:
        if self._reader.root is None:
            return None
        self._version += 1
        judgement = Judgement(self._version)
        try:
            verdict = self._root.verdict(self._reader.root, judgement)
        except RecursionError:  # nested deeper than can be judged, so deeper than can be promised
            return False
        self._watches_string = judgement.saw_open_string
        return verdict
