"""The last judge of a finished JSON text: strict JSON, then the schema itself, by a validator that builds no grammar.

jsonschema judges, but for `pattern`, where Python's `re` differs from JSON Schema and may take exponential time, and
for `multipleOf`, which floating-point division gets wrong.
"""

from __future__ import annotations

import json
import math
import re
from contextvars import ContextVar
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from sureact.constraints.deep_stack import call_with_room
from sureact.constraints.schema.keywords import ASSERTED_FORMATS, Schema
from sureact.constraints.schema.nullable import with_null
from sureact.constraints.schema.text_tests import pattern_matches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator
    from referencing.jsonschema import SchemaRegistry

_Judged: TypeAlias = "dict[tuple[int, int], tuple[object, ValidationError | None]]"

_JUDGED: ContextVar[_Judged] = ContextVar("_JUDGED")
"""What each `$ref` said of each part of the value that is judged now, by their identities. The parts are held, so that
no other value takes their identity."""

_DYNAMIC = re.compile(r'"\$(?:dynamicRef|recursiveRef|ref": "https?://json-schema\.org/)')


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


def is_draft_known(schema: Schema) -> bool:
    """Whether `$schema` names a draft, or nothing does."""
    from jsonschema.validators import Draft3Validator, validator_for

    # Draft 3 stands for "none of ours": it is not served, and jsonschema has it.
    is_named = isinstance(schema, dict) and "$schema" in schema
    return not is_named or validator_for(schema, default=Draft3Validator) is not Draft3Validator


def json_validator(schema: Schema, *, check_formats: bool, resources: Mapping[str, Schema] | None = None) -> Validator:
    """Return the judge for `schema`, of the draft that its `$schema` names, else of 2020-12.

    Args:
        schema: a valid JSON schema; OpenAPI's `nullable` counts.
        check_formats: whether the formats that sureact asserts are checked.
        resources: documents that references may point to, by URI.
    """
    from jsonschema import FormatChecker
    from jsonschema.validators import Draft202012Validator, extend, validator_for

    draft = validator_for(schema, default=Draft202012Validator)
    judge_reference = draft.VALIDATORS["$ref"]
    judge = extend(
        draft,
        {
            "$ref": judge_reference if _depends_on_scope(schema, resources) else _judged_once(judge_reference),
            "pattern": _pattern,
            "patternProperties": _pattern_properties,
            "additionalProperties": _additional_properties,
            "multipleOf": _multiple_of,
        },
    )
    formats = FormatChecker(formats=())
    if check_formats:
        # The same names in every draft: real schemas use formats that their own draft does not list.
        known = Draft202012Validator.FORMAT_CHECKER.checkers
        formats.checkers = {name: known[name] for name in ASSERTED_FORMATS}
    return judge(with_null(schema), format_checker=formats, registry=_registry(resources or {}, draft))


def first_fault(judge: Validator, value: object) -> ValidationError | None:
    """Return what is wrong with a value, or the first of several such things; None where it is valid.

    However often references lead to the same schema for the same part of the value, it is judged once; however deeply
    the value is nested that `parse_json` returns, it is judged.
    """

    def search() -> ValidationError | None:
        token = _JUDGED.set({})
        try:
            return next(judge.iter_errors(value), None)  # pyright: ignore[reportArgumentType]  any JSON value
        finally:
            _JUDGED.reset(token)

    return call_with_room(search)


def _judged_once(judge_reference: Any) -> Any:
    """Let a reference judge a part of the value once, as many references may lead to the same schema."""

    def check(validator: Validator, reference: str, instance: object, schema: object) -> Iterator[ValidationError]:
        judged = _JUDGED.get(None)
        key = (id(schema), id(instance))
        if judged is not None and key in judged:
            fault = judged[key][1]
            if fault is not None:
                yield type(fault)(fault.message)
            return
        for fault in judge_reference(validator, reference, instance, schema):
            if judged is not None:
                judged.setdefault(key, (instance, fault))
            yield fault
        if judged is not None:
            judged.setdefault(key, (instance, None))

    return check


def _depends_on_scope(schema: Schema, resources: Mapping[str, Schema] | None) -> bool:
    """Whether what a reference leads to may depend on the way to it; metaschemas are written so."""
    return _DYNAMIC.search(json.dumps([schema, dict(resources or {})])) is not None


def _registry(resources: Mapping[str, Schema], draft: type[Validator]) -> SchemaRegistry:
    """Return what references are looked up in: nothing is ever fetched."""
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012, specification_with

    own = draft.META_SCHEMA.get("$id") or draft.META_SCHEMA["id"]
    specification = specification_with(own, default=DRAFT202012)
    named = (
        (uri, Resource.from_contents(contents, default_specification=specification))
        for uri, contents in resources.items()
    )
    return Registry().with_resources(named)


def _pattern(validator: Validator, pattern: str, instance: object, schema: object) -> Iterator[Exception]:
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, str) and not pattern_matches(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: dict[str, Schema], instance: Any, schema: object
) -> Iterator[Exception]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            if pattern_matches(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, extra: Schema, instance: Any, schema: Any) -> Iterator[Exception]:
    if not isinstance(instance, dict):
        return
    from jsonschema.exceptions import ValidationError

    patterns = schema.get("patternProperties", ())
    for name, value in instance.items():
        if name in schema.get("properties", ()) or any(pattern_matches(pattern, name) for pattern in patterns):
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
