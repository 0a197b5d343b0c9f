"""JSON values as far as they are written: the tree that guards judge.

Nothing in it is ever replaced. Lists grow at their ends, so a position in the text is fully told by the open values on
the path to it and their lengths, and going back is cutting them to those lengths.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import isinf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from sureact.constraints.guards.verdict import Verdict

Kind: TypeAlias = Literal["null", "boolean", "number", "string", "array", "object"]

MAX_INTEGER_DIGITS = 4300
"""Digits of the longest integer that Python reads by default."""


class PartialValue:
    """A value that has begun.

    Attributes:
        kind: its JSON type; integers are numbers.
        start: byte of the text at which it begins.
        is_closed: whether nothing more belongs to it.
        is_held: whether a guard that can run into a dead end judges it.
        memo: verdict per schema; those that are final stay.
        progress: what a check that goes through the children has seen already, by the check.
    """

    __slots__ = ("is_closed", "is_held", "kind", "memo", "progress", "start")

    def __init__(self, kind: Kind, start: int, *, is_closed: bool = False) -> None:
        self.kind: Kind = kind
        self.start = start
        self.is_closed = is_closed
        self.is_held = False
        self.memo: dict[object, tuple[int, Verdict]] = {}
        self.progress: dict[object, Any] = {}

    @property
    def lengths(self) -> tuple[int, ...]:
        """How much of it is there, for `cut`."""
        return ()

    def cut(self, lengths: tuple[int, ...]) -> None:
        """Go back to what it was when it had these `lengths`, open."""
        self.is_closed = False
        self.memo.clear()
        self.progress.clear()

    def plain(self) -> Hashable:
        """Return a hashable that equal closed JSON values share: 1 and 1.0 do, 1 and true do not."""
        raise NotImplementedError


class PartialConstant(PartialValue):
    """`null`, `true` or `false`: known, and closed, from its first letter."""

    __slots__ = ("value",)

    def __init__(self, value: bool | None, start: int) -> None:
        super().__init__("null" if value is None else "boolean", start, is_closed=True)
        self.value = value

    def plain(self) -> Hashable:
        """Return the value."""
        return plain_value(self.value)


class PartialNumber(PartialValue):
    """A number; open until another character follows, because digits may."""

    __slots__ = ("pieces",)

    def __init__(self, start: int) -> None:
        super().__init__("number", start)
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        """As it is written."""
        return "".join(self.pieces)

    @property
    def value(self) -> int | float:
        """The number, once closed."""
        text = self.text
        return int(text) if text.lstrip("-").isdecimal() else float(text)

    @property
    def is_readable(self) -> bool:
        """Whether it is, or can still become, a number that a reader of JSON holds: finite, and not endless."""
        text = self.text
        if len(text) > MAX_INTEGER_DIGITS:
            return False
        is_integer = text.lstrip("-").isdecimal()
        # More digits in a positive exponent never make it smaller.
        is_final = self.is_closed or ("e" in text.lower() and text[-1].isdecimal() and "-" not in text[1:])
        return is_integer or not is_final or not isinf(float(text))

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of pieces."""
        return (len(self.pieces),)

    def cut(self, lengths: tuple[int, ...]) -> None:
        """Drop the pieces after the first `lengths[0]`."""
        super().cut(lengths)
        del self.pieces[lengths[0] :]

    def plain(self) -> Hashable:
        """Return the number."""
        return plain_value(self.value)


class PartialString(PartialValue):
    """A string, decoded as far as it is written.

    Attributes:
        pieces: its characters, as they came.
        num_characters: how many these are.
        half_read: the first bytes of one more, as it is spelled.
    """

    __slots__ = ("half_read", "num_characters", "pieces")

    def __init__(self, start: int) -> None:
        super().__init__("string", start)
        self.pieces: list[str] = []
        self.num_characters = 0
        self.half_read = b""

    def append(self, characters: str) -> None:
        """Add what was read."""
        self.pieces.append(characters)
        self.num_characters += len(characters)

    @property
    def text(self) -> str:
        """The characters so far."""
        if len(self.pieces) > 1:
            return "".join(self.pieces)
        return self.pieces[0] if self.pieces else ""

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of pieces, and of characters."""
        return (len(self.pieces), self.num_characters)

    def cut(self, lengths: tuple[int, ...]) -> None:
        """Drop the pieces after the first `lengths[0]`."""
        super().cut(lengths)
        del self.pieces[lengths[0] :]
        self.num_characters = lengths[1]

    def plain(self) -> Hashable:
        """Return the text."""
        return plain_value(self.text)


class PartialArray(PartialValue):
    """An array: its items, the last of which may be open.

    Attributes:
        items: those that have begun.
        awaits_item: a comma came, so there will be one more.
    """

    __slots__ = ("awaits_item", "items")

    def __init__(self, start: int) -> None:
        super().__init__("array", start)
        self.items: list[PartialValue] = []
        self.awaits_item = False

    @property
    def min_len(self) -> int:
        """Items that it has or must get."""
        return len(self.items) + self.awaits_item

    @property
    def lengths(self) -> tuple[int, ...]:
        """Items, and whether one is awaited."""
        return (len(self.items), self.awaits_item)

    def cut(self, lengths: tuple[int, ...]) -> None:
        """Drop the items after the first `lengths[0]`."""
        super().cut(lengths)
        del self.items[lengths[0] :]
        self.awaits_item = bool(lengths[1])

    def plain(self) -> Hashable:
        """Return the items."""
        return ("array", tuple(item.plain() for item in self.items))


class PartialObject(PartialValue):
    """An object: its names, the last of which may be open, and the values of the names before.

    Attributes:
        names: those that have begun; the last may lack its value.
        values: by the order of `names`; the last may be open.
        members: index by name, of the closed names.
        awaits_name: a comma came, so there will be one more.
    """

    __slots__ = ("awaits_name", "members", "names", "values")

    def __init__(self, start: int) -> None:
        super().__init__("object", start)
        self.names: list[PartialString] = []
        self.values: list[PartialValue] = []
        self.members: dict[str, int] = {}
        self.awaits_name = False

    @property
    def open_name(self) -> PartialString | None:
        """The name that is being written."""
        return self.names[-1] if self.names and not self.names[-1].is_closed else None

    @property
    def needs_name(self) -> bool:
        """Whether a name is being written or must come."""
        return self.awaits_name or self.open_name is not None

    @property
    def min_len(self) -> int:
        """Members that it has or must get."""
        return len(self.names) + self.awaits_name

    @property
    def lengths(self) -> tuple[int, ...]:
        """Names, values, closed names, and whether a name is awaited."""
        return (len(self.names), len(self.values), len(self.members), self.awaits_name)

    def cut(self, lengths: tuple[int, ...]) -> None:
        """Drop the names and values after the first `lengths[0]` and `lengths[1]`."""
        super().cut(lengths)
        del self.names[lengths[0] :]
        del self.values[lengths[1] :]
        while len(self.members) > lengths[2]:
            self.members.popitem()
        self.awaits_name = bool(lengths[3])

    def plain(self) -> Hashable:
        """Return the members, in no order."""
        pairs = zip(self.names, self.values, strict=True)
        return ("object", frozenset((name.text, value.plain()) for name, value in pairs))


def plain_value(value: Any) -> Hashable:
    """Return what `PartialValue.plain` returns for a parsed JSON value."""
    match value:
        case bool() | None:
            return ("constant", value)
        case float() if value.is_integer():
            return int(value)
        case list():
            return ("array", tuple(map(plain_value, value)))
        case dict():
            return ("object", frozenset((name, plain_value(member)) for name, member in value.items()))
        case _:
            return value
