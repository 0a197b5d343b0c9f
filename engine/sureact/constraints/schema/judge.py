"""The last judge of a finished JSON text: strict JSON, then the schema itself, by a validator that builds no grammar.

jsonschema judges, but for `pattern`, where Python's `re` differs from JSON Schema and may take exponential time, and
for `multipleOf`, which floating-point division gets wrong.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sureact.constraints.byte_matcher import matches_grammar
from sureact.constraints.schema.keywords import ASSERTED_FORMATS, Schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema.protocols import Validator


class UnexcludedJsonError(ValueError):
    """A text that the syntax of JSON allows, that stands for no value, and that a grammar cannot exclude."""


def parse_json(text: str) -> Any:
    """Parse JSON as the standard has it.

    Raises:
        UnexcludedJsonError: a key twice in one object, a number that is not finite (`1e999`), an integer longer than
            Python reads, or values nested deeper than it reads.
        ValueError: not JSON; `NaN` and `Infinity` are not.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer
        )
    except RecursionError as error:
        raise UnexcludedJsonError("it is nested deeper than Python reads") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        raise UnexcludedJsonError(
            f"the key {next(key for key in keys if keys.count(key) > 1)!r} appears twice in one object"
        )
    return members


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a finite number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise UnexcludedJsonError(f"{text} is not a finite number")
    return number


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UnexcludedJsonError(f"an integer of {len(text):,} characters is longer than Python reads") from error


def json_validator(schema: Schema, *, check_formats: bool) -> Validator:
    """Return the judge for `schema`, of the draft that its `$schema` names, else of 2020-12.

    Args:
        schema: a valid JSON schema.
        check_formats: whether the formats that a grammar enforces are checked.
    """
    from jsonschema import FormatChecker
    from jsonschema.validators import Draft202012Validator, extend, validator_for

    draft = validator_for(schema, default=Draft202012Validator)
    judge = extend(
        draft,
        {
            "pattern": _pattern,
            "patternProperties": _pattern_properties,
            "additionalProperties": _additional_properties,
            "multipleOf": _multiple_of,
        },
    )
    formats = FormatChecker(formats=())
    if check_formats:
        # The draft's own checkers: one name can mean different things, as `time` did in draft 3.
        formats.checkers = {
            name: check for name, check in draft.FORMAT_CHECKER.checkers.items() if name in ASSERTED_FORMATS
        }
    return judge(schema, format_checker=formats)


@lru_cache(maxsize=4096)
def _matches_pattern(pattern: str, text: str) -> bool:
    from llguidance import LLMatcher

    grammar = LLMatcher.grammar_from_json_schema({"type": "string", "pattern": pattern})
    return matches_grammar(grammar, json.dumps(text, ensure_ascii=False))


def _pattern(validator: Validator, pattern: str, instance: object, schema: object) -> Iterator[Exception]:
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, str) and not _matches_pattern(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: dict[str, Schema], instance: Any, schema: object
) -> Iterator[Exception]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            if _matches_pattern(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, extra: Schema, instance: Any, schema: Any) -> Iterator[Exception]:
    if not isinstance(instance, dict):
        return
    from jsonschema.exceptions import ValidationError

    patterns = schema.get("patternProperties", ())
    for name, value in instance.items():
        if name in schema.get("properties", ()) or any(_matches_pattern(pattern, name) for pattern in patterns):
            continue
        if extra is False:
            yield ValidationError(f"{name!r} is not a property of this object")
        else:
            yield from validator.descend(value, extra, path=name)


def _multiple_of(validator: Validator, divisor: float, instance: object, schema: object) -> Iterator[Exception]:
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, bool) or not isinstance(instance, int | float):
        return
    if (Fraction(str(instance)) / Fraction(str(divisor))).denominator != 1:
        yield ValidationError(f"{instance!r} is not a multiple of {divisor!r}")
