"""What the value of a keyword must look like. Each check returns the value in its normal form."""

from __future__ import annotations

import math
from typing import Any, TypeGuard, cast

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
"""The names that `type` may have."""


class MalformedKeywordError(ValueError):
    """A keyword has a value that means nothing; the message says what is allowed."""


def type_names(value: Any) -> str | list[str]:
    """Check a `type`; a list of one name is that name."""
    if isinstance(value, str):
        names = [value]
    elif isinstance(value, list) and value:
        names = list(dict.fromkeys(texts(value)))
    else:
        raise _malformed(value, "the name of a type or a list of such names")
    for name in names:
        if name not in TYPES:
            raise _malformed(name, f"a type; the types are {', '.join(sorted(TYPES))}")
    return names[0] if len(names) == 1 else names


def number(value: Any) -> int | float:
    """Check a bound: a finite number."""
    if not is_number(value) or (isinstance(value, float) and not math.isfinite(value)):
        raise _malformed(value, "a number")
    return value


def divisor(value: Any) -> int | float:
    """Check a `multipleOf`."""
    if number(value) <= 0:
        raise _malformed(value, "a number greater than 0")
    return value


def count(value: Any) -> int:
    """Check a length or a number of members; `2.0` counts as 2."""
    if not is_number(value) or value < 0 or (isinstance(value, float) and not value.is_integer()):
        raise _malformed(value, "a whole number, 0 or more")
    return int(value)


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a JSON value is a number; to Python, true and false are numbers too."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def flag(value: Any) -> bool:
    """Check a keyword that is true or false."""
    if not isinstance(value, bool):
        raise _malformed(value, "true or false")
    return value


def text(value: Any) -> str:
    """Check a text; a lone surrogate cannot be written in UTF-8."""
    if not isinstance(value, str):
        raise _malformed(value, "a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise MalformedKeywordError(f"{value!r} has a lone surrogate, which no UTF-8 text can hold") from error
    return value


def texts(value: Any) -> list[str]:
    """Check a list of texts."""
    if not isinstance(value, list):
        raise _malformed(value, "a list of strings")
    return [text(item) for item in cast("list[Any]", value)]


def names(value: Any) -> list[str]:
    """Check a list of property names; a name that comes twice means no more than once."""
    return list(dict.fromkeys(texts(value)))


def constants(value: Any) -> list[Any]:
    """Check an `enum`."""
    if not isinstance(value, list):
        raise _malformed(value, "a list of values")
    if not value:
        raise MalformedKeywordError("the list is empty, so that no value satisfies it")
    for item in cast("list[Any]", value):
        constant(item)
    return cast("list[Any]", value)


def constant(value: Any) -> Any:
    """Check a value that a text may have to repeat: it needs a spelling in JSON."""
    unchecked: list[Any] = [value]
    while unchecked:  # a loop: the value may be nested deeper than Python recurses
        item = unchecked.pop()
        if isinstance(item, str):
            text(item)
        elif isinstance(item, dict):
            members = cast("dict[str, Any]", item)
            for name in members:
                text(name)
            unchecked.extend(members.values())
        elif isinstance(item, list):
            unchecked.extend(cast("list[Any]", item))
        elif isinstance(item, float):
            number(item)
    return value


def members(value: Any) -> dict[str, Any]:
    """Check a map from names to anything."""
    if not isinstance(value, dict):
        raise _malformed(value, "an object")
    for name in cast("dict[str, Any]", value):
        text(name)
    return cast("dict[str, Any]", value)


def schemas(value: Any) -> list[Any]:
    """Check a list that has something in it."""
    if not isinstance(value, list) or not value:
        raise _malformed(value, "a list of at least one schema")
    return cast("list[Any]", value)


def _malformed(value: object, allowed: str) -> MalformedKeywordError:
    return MalformedKeywordError(f"{shortened(value)} is not {allowed}")


def shortened(value: object) -> str:
    """Write a value as an error shows it; of a long one, the beginning."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "a huge integer"  # Python refuses to write the longest ones
    shown = repr(value)
    return shown if len(shown) <= 100 else f"{shown[:100]}..."
