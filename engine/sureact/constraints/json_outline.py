"""Which values of a JSON text are open where it ends now: what is known of its form without a schema.

The text may be a call that begins with other text; the JSON then begins at the first brace. Syntax is not checked, the
grammar beside it does that.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

ValueKind: TypeAlias = Literal["string", "number", "array", "object"]
_Mode: TypeAlias = Literal["start", "before", "between", "string", "escape", "number"]

_JSON_STARTS = b'{["-0123456789'
_NUMBER = re.compile(rb"[-+.eE0-9]*")
_PLAIN = re.compile(rb'[^"\\]*')
_MARK = re.compile(rb'["\[\]{},:0-9-]')
_KINDS: dict[bytes, ValueKind] = {b'"': "string", b"[": "array", b"{": "object"}


class OpenValue(NamedTuple):
    """A value, or the name of a member, that has begun and not ended."""

    kind: ValueKind
    start: int
    """Byte at which it begins."""
    num_commas: int = 0
    """Of an array or object: commas between its own items."""
    name: tuple[int, int] | None = None
    """Of an object: the bytes, quotes included, of the last name."""
    is_after_colon: bool = False
    """Of an object: whether what comes is a value and no name."""


class Outline(NamedTuple):
    """A position in a JSON text. A value itself: reading on makes another one."""

    open_values: tuple[OpenValue, ...] = ()
    """From the outermost to the innermost."""
    num_bytes: int = 0
    mode: _Mode = "start"

    def read(self, data: bytes) -> Outline:
        """Return the position after `data`."""
        values, mode = list(self.open_values), self.mode
        index = 0
        while index < len(data):
            match mode:
                case "start":
                    mode = "between" if data[index] in _JSON_STARTS else "before"
                case "before":
                    index = data.find(b"{", index)
                    if index < 0:
                        break
                    mode = "between"
                case "string":
                    index, mode = _read_string(values, data, index, self.num_bytes)
                case "escape":
                    index, mode = index + 1, "string"
                case "number":
                    index = _end_of(_NUMBER, data, index)
                    if index < len(data):
                        values.pop()
                        mode = "between"
                case "between":
                    index, mode = _read_mark(values, data, index, self.num_bytes)
        return Outline(tuple(values), self.num_bytes + len(data), mode)

    @property
    def is_in_string(self) -> bool:
        """Whether the next character belongs to a string or a name, or ends it."""
        return self.mode in ("string", "escape")

    def depth_at(self, byte_index: int) -> int:
        """Return how many of the open values had begun before the byte `byte_index`, that one included."""
        return sum(value.start <= byte_index for value in self.open_values)

    def pointer(self, depth: int, text: bytes) -> str:
        """Return the JSON pointer of the innermost of the first `depth` open values.

        Args:
            depth: at least 1.
            text: the whole text so far.
        """
        parts: list[str] = []
        for value in self.open_values[: depth - 1]:
            if value.kind == "array":
                parts.append(str(value.num_commas))
            elif value.is_after_colon and value.name is not None:
                name = text[value.name[0] + 1 : value.name[1] - 1].decode(errors="replace")
                parts.append(name.replace("~", "~0").replace("/", "~1"))
        return "".join(f"/{part}" for part in parts)


def _read_string(values: list[OpenValue], data: bytes, index: int, offset: int) -> tuple[int, _Mode]:
    index = _end_of(_PLAIN, data, index)
    if index == len(data):
        return index, "string"
    if data[index : index + 1] == b"\\":
        return index + 1, "escape"
    string = values.pop()
    if values and values[-1].kind == "object" and not values[-1].is_after_colon:
        values[-1] = values[-1]._replace(name=(string.start, offset + index + 1))
    return index + 1, "between"


def _read_mark(values: list[OpenValue], data: bytes, index: int, offset: int) -> tuple[int, _Mode]:
    """Read up to the next character that opens, closes or separates, and that one."""
    match = _MARK.search(data, index)
    if match is None:
        return len(data), "between"
    mark, start = match[0], match.start()
    if mark in (b"]", b"}"):
        if values:
            values.pop()
    elif mark == b",":
        if values:
            values[-1] = values[-1]._replace(num_commas=values[-1].num_commas + 1, is_after_colon=False)
    elif mark == b":":
        if values:
            values[-1] = values[-1]._replace(is_after_colon=True)
    else:
        kind = _KINDS.get(mark, "number")
        values.append(OpenValue(kind, offset + start))
        return start + 1, kind if kind in ("string", "number") else "between"
    return start + 1, "between"


def _end_of(pattern: re.Pattern[bytes], data: bytes, index: int) -> int:
    match = pattern.match(data, index)
    return index if match is None else match.end()
