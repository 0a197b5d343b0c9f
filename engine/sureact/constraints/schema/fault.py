"""Errors of schemas that cannot be enforced: what is at fault, and where."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from sureact.constraints.regex_fault import regex_fault, repeated_repeat, size_fault
from sureact.constraints.schema.contradiction import find_contradiction, place_in_source
from sureact.constraints.schema.ecma_pattern import pattern_parts
from sureact.constraints.schema.keywords import Schema, map_subschemas
from sureact.constraints.schema.pointer import child_pointer
from sureact.constraints.schema.text_tests import pattern_error
from sureact.constraints.schema.unsatisfiability import unsatisfiable
from sureact.errors import ConstraintCompileError, UnsupportedSchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sureact.constraints.schema.normal_form import NormalSchema

_GROUP_OR_OTHER = re.compile(
    r"\\.|\[\^?(?:\\.|[^\]\\])*\]|(?P<name>\(\?P[<=>])|\(\?(?P<flags>[A-Za-z-]+)[:)]|.", re.DOTALL
)
_MAX_PATTERNS = 2_000
"""Each is compiled when the schema is, and tested in turn; the most that a public schema has are some hundred."""


def unsatisfiable_error(normal: NormalSchema, source: Schema) -> ConstraintCompileError:
    """Return the error that says why nothing satisfies a schema.

    Args:
        normal: a schema that nothing satisfies.
        source: what it is the normal form of.
    """
    known = unsatisfiable(normal)
    if known is not None:
        why, place = known
        where = place_in_source(place, source) or place
        return _no_value(f"{why}, at {where or 'the root'}. Remove or loosen what stands there.")
    keywords, place = find_contradiction(normal, source)
    where = place or "the root"
    if not keywords:
        return _no_value(f"false allows no value, at {where}. Allow something there, or do not ask for it.")
    *others, last = map(repr, keywords)
    if not others:
        return _no_value(f"the keyword {last} at {where} allows none. Remove or loosen it.")
    named = f"{', '.join(others)} and {last}"
    return _no_value(f"the keywords {named} at {where} contradict each other. Remove or loosen one of them.")


def check_patterns(patterns: Iterable[str], schema: Schema, grammar_schema_text: str = "") -> None:
    """Refuse patterns that nothing can test for, or that mean another thing here than in ECMA-262.

    Args:
        patterns: of `pattern` and `patternProperties`.
        schema: where they stand.
        grammar_schema_text: the schema of the grammar that was compiled; the patterns in it are known to compile.

    Raises:
        UnsupportedSchemaError: one of them cannot be used, or they are too many.
    """
    num_tested = 0
    for pattern in patterns:
        is_tested = json.dumps(pattern) not in grammar_schema_text
        num_tested += is_tested
        fault = _foreign_syntax(pattern) or (_test_fault(pattern) if is_tested else "") or _size_fault(pattern)
        if num_tested > _MAX_PATTERNS:
            fault = f"it is one too many: {_MAX_PATTERNS:,} can be tested beside a grammar. Join some with |."
        if fault:
            keyword, place = _place_of(pattern, schema)
            message = f"The regex {pattern!r} at {place} cannot be used: {fault}"
            raise UnsupportedSchemaError(message, keyword=keyword, pointer=place)


def patterns_of(normal: NormalSchema) -> set[str]:
    """Return every regex of a schema in normal form."""
    found: set[str] = set()
    pending: list[Schema] = [normal.root, *normal.definitions.values()]

    def collect(child: Schema, _: tuple[str, ...]) -> Schema:
        pending.append(child)
        return child

    for part in pending:
        if isinstance(part, dict):
            if "pattern" in part:
                found.add(part["pattern"])
            found.update(part.get("patternProperties", ()))
            map_subschemas(part, collect)
    return found


def _no_value(why: str) -> ConstraintCompileError:
    return ConstraintCompileError(f"No JSON value can satisfy the schema: {why}")


@lru_cache(maxsize=1024)
def _foreign_syntax(pattern: str) -> str:
    """Return what ECMA-262 does not know in `pattern`, and other dialects do."""
    if (repeat := repeated_repeat(pattern)) is not None:
        return f"{repeat} is the repeat of a repeat, which JSON Schema's regexes (ECMA-262) do not have. Remove one."
    for piece in _GROUP_OR_OTHER.finditer(pattern):
        flags = piece["flags"] or ""
        if piece["name"]:
            remedy = "Write (?<name>...), or (?:...) without a name."
        elif not set(flags) <= set("ims-"):
            remedy = "Leave the flag out."
        elif flags and piece[0].endswith(")"):
            remedy = f"Write (?{flags}:...) around the rest."
        else:
            continue
        return f"JSON Schema's regexes (ECMA-262) do not have {piece[0]}. {remedy}"
    return ""


def _test_fault(pattern: str) -> str:
    """Return why no automaton can test for a pattern, or the empty text."""
    error = pattern_error(pattern)
    if "look-around" in error:
        return (
            "it looks around inside the text, and a finite automaton cannot. Lookahead is served at the start of a "
            "pattern without alternatives, as in ^(?!...) and ^(?=...). Move it there, or check it in the tool."
        )
    return regex_fault(error) if error else ""


def _place_of(pattern: str, schema: Schema) -> tuple[str, str]:
    """Return keyword and pointer of the outermost place that has `pattern`; references may lead anywhere."""
    pending: list[tuple[str, object]] = [("", schema)]
    for pointer, part in pending:
        if isinstance(part, dict):
            members = cast("dict[str, Any]", part)
            if members.get("pattern") == pattern:
                return "pattern", child_pointer(pointer, "pattern")
            if pattern in (members.get("patternProperties") or ()):
                return "patternProperties", child_pointer(pointer, "patternProperties", pattern)
            pending += [(child_pointer(pointer, key), value) for key, value in members.items()]
        elif isinstance(part, list):
            items = enumerate(cast("list[object]", part))
            pending += [(child_pointer(pointer, str(index)), item) for index, item in items]
    return "pattern", "a document that is referred to"


@lru_cache(maxsize=1024)
def _size_fault(pattern: str) -> str:
    """Return why a pattern cannot be followed through long texts, or the empty text."""
    parts = pattern_parts(pattern)
    faults = (size_fault(part, _grammar_of) for part in (*parts.required, *parts.forbidden))
    return next(filter(None, faults), "")


def _grammar_of(pattern: str) -> str:
    from llguidance import LLMatcher

    return LLMatcher.grammar_from_json_schema({"type": "string", "pattern": pattern})
