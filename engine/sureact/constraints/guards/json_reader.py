"""Reads JSON text as it is written into a tree of partial values, and goes back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from sureact.constraints.guards.partial_value import (
    PartialArray,
    PartialConstant,
    PartialNumber,
    PartialObject,
    PartialString,
    PartialValue,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN = re.compile(r'[^"\\]+')
_NUMBER = re.compile(r"[-+.eE0-9]+")
_BLANK = re.compile(r"[ \t\r\n]+")
_CONSTANTS: dict[str, tuple[str, bool | None]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_ESCAPE = re.compile(
    r"\\u(?:[0-9A-CEFa-cef][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}|"
    r"[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})"
)
_HALF_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{0,3})?|\\u[Dd][89ABab][0-9A-Fa-f]{2}(?:\\(?:u[0-9A-Fa-f]{0,3})?)?")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}

_Open: TypeAlias = tuple[tuple[PartialValue, tuple[int, ...]], ...]


class Position(NamedTuple):
    """A place in the text, for `JsonReader.go_back`."""

    num_bytes: int
    root: PartialValue | None
    open_values: _Open
    mode: str
    unread: bytes
    half_read: str


class JsonReader:
    """A position in a JSON text.

    The grammar before it lets only JSON through, so syntax is not checked. What no grammar excludes is: a name twice in
    one object, and numbers that no reader holds.

    Attributes:
        root: the value of the whole text; None before it begins.
        open_values: the path from the root to what is written now; a name is its last part while it is open.
        num_bytes: bytes read.
    """

    def __init__(self) -> None:
        self.root: PartialValue | None = None
        self.open_values: list[PartialValue] = []
        self.num_bytes = 0
        self._text_start = 0
        self._mode = "value"
        self._unread = b""  # the first bytes of a character
        self._half_read = ""  # the first characters of an escape or a constant

    @property
    def is_complete(self) -> bool:
        """Whether the text may end here; a number at the top may."""
        is_number = len(self.open_values) == 1 and self._mode == "number"
        return self.root is not None and self._mode != "constant" and (not self.open_values or is_number)

    @property
    def is_in_string(self) -> bool:
        """Whether the next character belongs to a string or a name, if it does not end it."""
        return self._mode == "string"

    def position(self) -> Position:
        """Return where the text stands."""
        open_values = tuple([(value, value.lengths) for value in self.open_values])
        return Position(self.num_bytes, self.root, open_values, self._mode, self._unread, self._half_read)

    def go_back(self, position: Position) -> None:
        """Forget what was read after `position`."""
        for value, lengths in position.open_values:
            value.cut(lengths)
        self.num_bytes, self.root = position.num_bytes, position.root
        self.open_values = [value for value, _ in position.open_values]
        self._mode, self._unread, self._half_read = position.mode, position.unread, position.half_read
        self._note_half_character()

    def read(self, data: bytes) -> bool:
        """Read on.

        Returns:
            False when the text holds what no reader takes; it cannot be read on then, only gone back from.
        """
        text = self._decoded(data)
        if text is None:
            return False
        index = 0
        while index < len(text):
            index = self._READERS[self._mode](self, text, index)
            if index < 0:
                return False
        self.num_bytes += len(data)
        self._note_half_character()
        return True

    def end(self) -> bool:
        """End the text, which closes a number at the top.

        Returns:
            False when that number is none that a reader takes.
        """
        return self._mode != "number" or self._close_number()

    def _note_half_character(self) -> None:
        if self._mode == "string":
            self._string.half_read = self._half_read.encode() + self._unread

    def _decoded(self, data: bytes) -> str | None:
        self._text_start = self.num_bytes - len(self._unread)
        data = self._unread + data
        try:
            text = data.decode()
            self._unread = b""
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":
                return None
            text, self._unread = data[: error.start].decode(), data[error.start :]
        return text

    def _read_value(self, text: str, index: int) -> int:
        blank = _BLANK.match(text, index)
        if blank:
            return blank.end()
        character = text[index]
        if character in "]}":
            return self._read_next(text, index)
        start = self._text_start + len(text[:index].encode())
        if character == '"':
            self._open(PartialString(start), "string")
        elif character == "{":
            self._open(PartialObject(start), "value")
        elif character == "[":
            self._open(PartialArray(start), "value")
        elif character in _CONSTANTS:
            spelling, value = _CONSTANTS[character]
            self._begin(PartialConstant(value, start))
            self._mode, self._half_read = "constant", spelling[1:]
        else:
            self._open(PartialNumber(start), "number")
            return index
        return index + 1

    def _begin(self, value: PartialValue) -> None:
        """Hang a value into the tree."""
        if not self.open_values:
            self.root = value
            return
        parent = self.open_values[-1]
        if isinstance(parent, PartialArray):
            parent.items.append(value)
            parent.awaits_item = False
        elif isinstance(parent, PartialObject):
            if len(parent.names) > len(parent.values):
                parent.values.append(value)
            elif isinstance(value, PartialString):
                parent.names.append(value)
                parent.awaits_name = False

    def _open(self, value: PartialValue, mode: str) -> None:
        self._begin(value)
        self.open_values.append(value)
        self._mode = mode

    def _read_string(self, text: str, index: int) -> int:
        if self._half_read:
            return self._read_escape(text, index)
        plain = _PLAIN.match(text, index)
        if plain:
            self._string.append(plain[0])
            return plain.end()
        if text[index] == "\\":
            self._half_read = "\\"
            return index + 1
        return index + 1 if self._close_string() else -1

    @property
    def _string(self) -> PartialString:
        string = self.open_values[-1]
        assert isinstance(string, PartialString)
        return string

    def _read_escape(self, text: str, index: int) -> int:
        """Read one character of an escape; the two halves of a surrogate pair are one."""
        escape = self._half_read + text[index]
        self._half_read = ""
        if len(escape) == 2 and escape[1] in _ESCAPES:
            self._string.append(_ESCAPES[escape[1]])
        elif _ESCAPE.fullmatch(escape):
            self._string.append(_unescaped(escape))
        elif _HALF_ESCAPE.fullmatch(escape):
            self._half_read = escape
        else:
            return -1
        return index + 1

    def _close_string(self) -> bool:
        string = self._string
        string.is_closed, string.half_read = True, b""
        self.open_values.pop()
        self._mode = "next"
        parent = self.open_values[-1] if self.open_values else None
        if not isinstance(parent, PartialObject) or len(parent.names) == len(parent.values):
            return True
        index = len(parent.names) - 1
        return parent.members.setdefault(string.text, index) == index

    def _read_number(self, text: str, index: int) -> int:
        digits = _NUMBER.match(text, index)
        if digits is None:
            return index if self._close_number() else -1
        number = self.open_values[-1]
        assert isinstance(number, PartialNumber)
        number.pieces.append(digits[0])
        return digits.end() if number.is_readable else -1

    def _close_number(self) -> bool:
        number = self.open_values.pop()
        assert isinstance(number, PartialNumber)
        number.is_closed = True
        self._mode = "next"
        return number.is_readable

    def _read_constant(self, text: str, index: int) -> int:
        self._half_read = self._half_read[1:]
        if not self._half_read:
            self._mode = "next"
        return index + 1

    def _read_next(self, text: str, index: int) -> int:
        """Read what stands between values: commas, colons, closing brackets, blanks."""
        if not self.open_values:
            return len(text)  # what follows the value is not its own
        character, parent = text[index], self.open_values[-1]
        if character in "]}":
            self.open_values.pop().is_closed = True
            self._mode = "next"
        elif character == ",":
            if isinstance(parent, PartialArray):
                parent.awaits_item = True
            elif isinstance(parent, PartialObject):
                parent.awaits_name = True
            self._mode = "value"
        elif character == ":":
            self._mode = "value"
        return index + 1

    # In the class: bound methods in each reader would be a cycle, and all that was read would wait for the collector.
    _READERS: ClassVar[dict[str, Callable[[JsonReader, str, int], int]]] = {
        "value": _read_value,
        "string": _read_string,
        "number": _read_number,
        "constant": _read_constant,
        "next": _read_next,
    }


def _unescaped(escape: str) -> str:
    r"""Return the character of `\uXXXX` or of a pair of them."""
    first = int(escape[2:6], 16)
    if len(escape) == 6:
        return chr(first)
    return chr(0x10000 + ((first - 0xD800) << 10) + (int(escape[8:], 16) - 0xDC00))
