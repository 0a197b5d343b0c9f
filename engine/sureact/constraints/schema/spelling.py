"""Which values, names and patterns a grammar of llguidance 1.9 can spell as valid texts do.

A constant of a grammar has one spelling: no exponent, no escape but those that JSON demands.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, cast

_MAX_EXACT_INTEGER = 2**53
"""llguidance reads numbers as doubles; larger integers would be rounded."""
_MAX_COEFFICIENT = 2**32 - 1
_MAX_REMAINDERS = 100_000
"""A regex for the multiples of a number has a state per remainder; a million take four seconds and 300 MB."""
_MAX_REPEATS = 2**32 - 1
_MAX_PLACES = 10
_REGEX_SYNTAX = re.compile(r"[\\.+*?()|\[\]{}^$/]")
_UNNAMEABLE = re.compile(r"[\x7f\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(?:[dw^$.*+?()\[\]{}|/\\-]|x[0-7][0-9a-fA-F])")


def is_spellable(value: Any, *, ensure_ascii: bool) -> bool:
    """Whether a constant can be written as `json.dumps` writes it."""
    if isinstance(value, str):
        return is_spellable_text(value, ensure_ascii=ensure_ascii)
    if isinstance(value, list):
        return all(is_spellable(item, ensure_ascii=ensure_ascii) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return all(
            is_spellable_text(name, ensure_ascii=ensure_ascii) and is_spellable(item, ensure_ascii=ensure_ascii)
            for name, item in members
        )
    return value is None or is_plain_number(value)


def is_spellable_text(text: str, *, ensure_ascii: bool) -> bool:
    """Whether a string constant or a name can be written; a lone surrogate is no UTF-8 text."""
    return text.isascii() or not (ensure_ascii or _SURROGATE.search(text))


def is_plain_number(number: int | float) -> bool:
    """Whether llguidance keeps the value of a number, and `json.dumps` writes it without an exponent."""
    if isinstance(number, int):
        return -_MAX_EXACT_INTEGER <= number <= _MAX_EXACT_INTEGER
    return number == 0.0 or 1e-4 <= abs(number) < 1e16


def is_countable(count: int) -> bool:
    """Whether a length is one that a regex can count to."""
    return count <= _MAX_REPEATS


def multiple_of(divisor: float) -> float | None:
    """Return a divisor that llguidance counts right, and that `divisor` is a multiple of; None when there is none.

    With two decimals or more, it counts by digits, and misses 2.5 among the multiples of 0.25.
    """
    if divisor > _MAX_COEFFICIENT:
        return None
    exact = Fraction(str(divisor))
    places = next((places for places in range(_MAX_PLACES) if (exact * 10**places).denominator == 1), None)
    if places is None:
        return None
    coefficient = exact.numerator * 10**places // exact.denominator
    if _without_tens(coefficient) > _MAX_REMAINDERS:
        return None
    if (places <= 1 or coefficient in (1, 2, 5)) and _is_read_right(divisor):
        return divisor
    step = (5 if coefficient % 5 == 0 else 2 if coefficient % 2 == 0 else 1) / 10**places
    return step if places and _is_read_right(step) else None


def _without_tens(number: int) -> int:
    """Divide by ten as often as it goes: trailing zeros are told without remainders."""
    while number % 10 == 0:
        number //= 10
    return number


def _is_read_right(divisor: float) -> bool:
    """Whether scaling by ten in doubles, as llguidance does, leads to the divisor as it is written."""
    scaled, places = float(divisor), 0
    while scaled != int(scaled):
        scaled, places = scaled * 10, places + 1
    return scaled <= _MAX_COEFFICIENT and Fraction(int(scaled), 10**places) == Fraction(str(divisor))


def name_pattern(name: str) -> str | None:
    """Return the regex that only `name` matches, or None where its text cannot be part of a regex."""
    if name.isidentifier():
        return f"^{name}$"
    if _UNNAMEABLE.search(name):
        return None
    escaped = _REGEX_SYNTAX.sub(r"\\\g<0>", name)
    return "^" + "".join(char if char >= " " else f"\\x{ord(char):02x}" for char in escaped) + "$"


def is_ascii_pattern(pattern: str) -> bool:
    """Whether every match of a pattern is surely ASCII: anchored, and built of nothing that means more."""
    inside = _ESCAPED.sub("", pattern[1:-1])
    return (
        pattern.isascii()
        and pattern.startswith("^")
        and pattern.endswith("$")
        and not re.search(r"[|.\\^$]", inside)
        and "(?" not in inside
    )
