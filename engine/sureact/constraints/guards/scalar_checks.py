"""What the keywords for any value, for numbers and for strings say of a value while it is written."""

from __future__ import annotations

import re
from bisect import bisect_left
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sureact.constraints.guards.partial_value import (
    PartialArray,
    PartialNumber,
    PartialObject,
    PartialString,
    PartialValue,
    plain_value,
)
from sureact.constraints.schema.text_tests import PatternReader, format_holds, pattern_matches

if TYPE_CHECKING:
    from sureact.constraints.guards.schema_program import Check, Judgement, SchemaProgram
    from sureact.constraints.guards.verdict import Verdict


def check_type(schema: dict[str, Any], _: SchemaProgram) -> Check:
    """The kind is known from the first character; whether a number is an integer, from the last."""
    names = schema["type"]
    types = frozenset([names] if isinstance(names, str) else names)

    def check(value: PartialValue, _: Judgement) -> Verdict:
        if value.kind in types:
            return True
        if not isinstance(value, PartialNumber) or "integer" not in types:
            return False
        if not value.is_closed:
            return None
        number = value.value
        return isinstance(number, int) or number.is_integer()

    return check


def check_enum(schema: dict[str, Any], _: SchemaProgram) -> Check:
    """`enum` and `const`: valid when closed and equal; open while it can still become equal to one of them."""
    options = [schema["const"]] if "const" in schema else schema["enum"]
    if "const" in schema and "enum" in schema:
        options = [schema["const"]] if plain_value(schema["const"]) in set(map(plain_value, schema["enum"])) else []
    plain = frozenset(map(plain_value, options))
    strings = sorted(option for option in options if isinstance(option, str))

    def check(value: PartialValue, judgement: Judgement) -> Verdict:
        if value.is_closed:
            return value.plain() in plain
        judgement.saw_open_string = True
        if isinstance(value, PartialString):
            return None if can_become_one_of(value, strings) else False
        return None if any(can_become(value, option) for option in options) else False

    return check


def can_become_one_of(string: PartialString | None, ordered: list[str]) -> bool:
    """Whether a string that is open, or has not begun, can end up as one of the sorted texts."""
    if string is None:
        return bool(ordered)
    prefix, half = string.text, string.half_read
    for index in range(bisect_left(ordered, prefix), len(ordered)):
        option = ordered[index]
        if not option.startswith(prefix):
            return False
        if not half or (option != prefix and _can_spell(half, option[len(prefix)])):
            return True
    return False


def _can_spell(half: bytes, character: str) -> bool:
    """Whether `half` begins a spelling of `character` in JSON."""
    if half[0] != ord("\\"):
        return character.encode(errors="surrogatepass").startswith(half)
    escape = re.sub("....", r"\\u\g<0>", character.encode("utf-16-be", "surrogatepass").hex())
    return escape.encode().startswith(half.lower()) or (half == b"\\" and character in '"\\/\b\f\n\r\t')


def can_become(value: PartialValue, option: Any) -> bool:
    """Whether a value that may be open can end up equal to `option`."""
    if value.is_closed:
        return value.plain() == plain_value(option)
    match value:
        case PartialString():
            return isinstance(option, str) and can_become_one_of(value, [option])
        case PartialNumber():
            is_number = isinstance(option, int | float) and not isinstance(option, bool)
            return is_number and _can_become_number(value.text, option)
        case PartialArray():
            if not isinstance(option, list) or value.min_len > len(option):
                return False
            return all(map(can_become, value.items, option))
        case PartialObject():
            if not isinstance(option, dict) or value.min_len > len(option):
                return False
            free = sorted(option.keys() - value.members.keys())
            if value.needs_name and not can_become_one_of(value.open_name, free):
                return False
            named = zip(value.members, value.values, strict=False)
            return value.members.keys() <= option.keys() and all(
                can_become(child, option[name]) for name, child in named
            )
        case _:
            return False


def _can_become_number(text: str, option: float) -> bool:
    """Whether digits and an exponent can make a number of `option`; not by digits that rounding drops."""
    is_negative, wanted = _significant_digits(option)
    if wanted and text.startswith("-") != is_negative:
        return False
    mantissa, exponent, _ = text.lower().partition("e")
    digits = mantissa.lstrip("-").replace(".", "").lstrip("0")
    return digits.rstrip("0") == wanted or (not exponent and wanted.startswith(digits))


@lru_cache(maxsize=4096)
def _significant_digits(number: float) -> tuple[bool, str]:
    digits = "".join(map(str, Decimal(str(number)).as_tuple().digits))
    return number < 0, digits.strip("0")


def check_number(schema: dict[str, Any], _: SchemaProgram) -> Check:
    """Bounds and `multipleOf`, once the number is complete."""
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    most, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    divisor = Fraction(str(schema["multipleOf"])) if "multipleOf" in schema else None

    def check(number: PartialNumber, _: Judgement) -> Verdict:
        if not number.is_closed:
            return None
        value = number.value
        return (
            (least is None or value >= least)
            and (most is None or value <= most)
            and (above is None or value > above)
            and (below is None or value < below)
            and (divisor is None or (Fraction(str(value)) / divisor).denominator == 1)
        )

    return check


def check_length(schema: dict[str, Any], _: SchemaProgram) -> Check:
    """`minLength` and `maxLength`, in code points."""
    least, most = schema.get("minLength", 0), schema.get("maxLength")

    def check(string: PartialString, _: Judgement) -> Verdict:
        length = string.num_characters + bool(string.half_read)
        if most is not None and length > most:
            return False
        if string.is_closed:
            return length >= least
        return True if most is None and length >= least else None

    return check


def check_pattern(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """`pattern`: False as soon as no continuation can match, and True where all do if that is asked for."""
    pattern: str = schema["pattern"]
    sees_certainty = program.sees_certainty
    key = object()

    def check(string: PartialString, _: Judgement) -> Verdict:
        if string.is_closed:
            string.progress.pop(key, None)
            return pattern_matches(pattern, string.text)
        reader, num_read = string.progress.get(key) or (PatternReader(pattern, sees_certainty=sees_certainty), 0)
        string.progress[key] = reader, len(string.pieces)
        if not all(map(reader.read, string.pieces[num_read:])):
            return False
        return True if reader.is_certain else None

    return check


def check_format(schema: dict[str, Any], _: SchemaProgram) -> Check:
    """`format`, once the string is complete."""
    name: str = schema["format"]
    return lambda string, _: format_holds(name, string.text) if string.is_closed else None
