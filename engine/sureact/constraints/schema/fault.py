"""Errors of schemas that cannot be enforced: what is at fault, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sureact.constraints.regex import regex_fault
from sureact.constraints.schema.keywords import Schema, map_subschemas
from sureact.constraints.schema.pointer import child_pointer
from sureact.constraints.schema.text_tests import pattern_error
from sureact.errors import ConstraintCompileError, UnsupportedSchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sureact.constraints.schema.normal_form import NormalSchema

_MAX_PATTERNS = 2_000
"""Each is compiled when the schema is, and tested in turn; the most that a public schema has are some hundred."""


def unsatisfiable_error(reason: str) -> ConstraintCompileError:
    """Turn llguidance's `reason` why no value can satisfy a schema into an error."""
    detail = reason.strip().split("\n")[0].split("Unsatisfiable schema: ")[-1]
    return ConstraintCompileError(f"No JSON value can satisfy the schema: {detail}.")


def check_patterns(patterns: Iterable[str], schema: Schema) -> None:
    """Refuse patterns that nothing can test for in linear time.

    Args:
        patterns: of `pattern` and `patternProperties`.
        schema: where they stand.

    Raises:
        UnsupportedSchemaError: one of them needs more than a finite automaton, or they are too many.
    """
    for index, pattern in enumerate(patterns):
        if index == _MAX_PATTERNS:
            keyword, place = _place_of(pattern, schema)
            message = (
                f"The regex {pattern!r} at {place} is one too many: {_MAX_PATTERNS:,} can be tested beside a grammar."
            )
            raise UnsupportedSchemaError(message, keyword=keyword, pointer=place)
        if error := pattern_error(pattern):
            keyword, place = _place_of(pattern, schema)
            message = f"The regex {pattern!r} at {place} cannot be used: {regex_fault(error)}"
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
