"""Errors of schemas that cannot be enforced: what is at fault, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sureact.constraints.regex import regex_fault
from sureact.constraints.schema.keywords import Schema, map_subschemas
from sureact.constraints.schema.pointer import child_pointer
from sureact.constraints.schema.text_tests import pattern_error
from sureact.errors import ConstraintCompileError, UnsupportedSchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sureact.constraints.schema.normal_form import NormalSchema

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
        UnsupportedSchemaError: one of them needs more than a finite automaton.
    """
    for pattern in patterns:
        if error := pattern_error(pattern):
            keyword, place = _place_of(pattern, schema)
            message = f"The regex {pattern!r} at {place} cannot be used: {regex_fault(error)}"
            raise UnsupportedSchemaError(message, keyword=keyword, pointer=place)


def patterns_of(normal: NormalSchema) -> set[str]:
    """Return every regex of a schema in normal form."""
    found: set[str] = set()
    for _, part in _walk(normal.document):
        if "pattern" in part:
            found.add(part["pattern"])
        found.update(part.get("patternProperties", ()))
    return found


def _place_of(pattern: str, schema: Schema) -> tuple[str, str]:
    """Return keyword and pointer of the outermost place that has `pattern`."""
    for pointer, part in _walk(schema):
        if part.get("pattern") == pattern:
            return "pattern", child_pointer(pointer, "pattern")
        if pattern in part.get("patternProperties", ()):
            return "patternProperties", child_pointer(pointer, "patternProperties", pattern)
    return "pattern", "another document"


def _walk(schema: Schema) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every subschema that is an object, with its pointer, outermost first."""
    pending: list[tuple[str, Schema]] = [("", schema)]
    while pending:
        pointer, part = pending.pop(0)
        if isinstance(part, bool):
            continue
        yield pointer, part

        def collect(child: Schema, path: tuple[str, ...], pointer: str = pointer) -> Schema:
            pending.append((child_pointer(pointer, *path), child))
            return child

        map_subschemas(part, collect)
