"""Splits the text of a constrained call, as it comes, into the tool's name and the text of its arguments."""

from __future__ import annotations

import json
from typing import NamedTuple


class CallFormat(NamedTuple):
    """What a prompt format writes around a call, control tokens left out."""

    prefix: str
    delimiter: str
    suffix: str


class CallText:
    """The text of one call. What follows the arguments is never shown as a part of them."""

    def __init__(self, call_format: CallFormat) -> None:
        self.name: str | None = None
        """The tool's name, once it is there."""
        self._format = call_format
        self._rest = ""
        self._told = ""

    def push(self, text: str) -> str:
        """Add text; return new text of the arguments."""
        self._rest += text
        if self.name is None:
            end = self._rest.find(self._format.delimiter, len(self._format.prefix))
            if end < 0:
                return ""
            self.name = self._rest[len(self._format.prefix) : end]
            self._rest = self._rest[end + len(self._format.delimiter) :]
        # The suffix follows the arguments and nothing follows it, so its length is what may not be shown yet.
        shown = max(len(self._rest) - len(self._format.suffix), 0)
        arguments, self._rest = self._rest[:shown], self._rest[shown:]
        self._told += arguments
        return arguments

    def end(self, *, is_whole: bool) -> str:
        """Return the last text of the arguments. A call that was cut off may lack any part of what follows them."""
        rest, self._rest = self._rest, ""
        if self.name is None or is_whole:
            return ""
        for length in range(len(rest), 0, -1):
            start, end = rest[:-length], rest[-length:]
            if self._format.suffix.startswith(end) and _is_json(self._told + start):
                return start
        return rest


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
