"""Where in a schema the fault lies that llguidance reports without saying where."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from sureact.constraints.byte_matcher import grammar_error
from sureact.constraints.regex import regex_fault
from sureact.constraints.schema.keywords import Schema, map_subschemas
from sureact.constraints.schema.pointer import child_pointer
from sureact.errors import ConstraintCompileError, UnsupportedSchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sureact.errors import ConstraintError

_UNSATISFIABLE = "Unsatisfiable schema: "
_CIRCULAR = re.compile(r"circular references with sibling keys are not supported: \S*(#\S*)")
_UNIMPLEMENTED = re.compile(r'Unimplemented keys: \["([^"]+)"')


def schema_error(reason: str, schema: Schema) -> ConstraintError:
    """Turn llguidance's `reason` to refuse `schema` into an error that names keyword and place where they are known."""
    line = reason.strip().split("\n")[0]
    if _UNSATISFIABLE in line:
        detail = line.split(_UNSATISFIABLE, 1)[1]
        return ConstraintCompileError(f"No JSON value can satisfy the schema: {detail}.")
    return _located(line, schema) or ConstraintCompileError(f"The JSON schema cannot be compiled: {reason.strip()}")


def _located(line: str, schema: Schema) -> UnsupportedSchemaError | None:
    if (circular := _CIRCULAR.search(line)) is not None:
        return _first(schema, "$ref", "refers to itself beside other keywords", value=circular[1])
    if (unimplemented := _UNIMPLEMENTED.search(line)) is not None:
        return _first(schema, unimplemented[1], "cannot be enforced while decoding")
    return _refused_pattern(schema)


def _first(schema: Schema, keyword: str, why: str, value: object = None) -> UnsupportedSchemaError | None:
    """Return the error for the outermost place that has `keyword`, with that value if one is given."""
    for pointer, part in _walk(schema):
        if keyword in part and value in (None, part[keyword]):
            place = child_pointer(pointer, keyword)
            return UnsupportedSchemaError(f"{json.dumps(keyword)} at {place} {why}.", keyword=keyword, pointer=place)
    return None


def _refused_pattern(schema: Schema) -> UnsupportedSchemaError | None:
    for pointer, part in _walk(schema):
        patterns = [("pattern", part["pattern"])] if "pattern" in part else []
        patterns += [("patternProperties", pattern) for pattern in part.get("patternProperties", ())]
        for keyword, pattern in patterns:
            if error := _pattern_error(pattern):
                place = child_pointer(pointer, keyword)
                message = f"The regex {pattern!r} at {place} cannot be used: {regex_fault(error)}"
                return UnsupportedSchemaError(message, keyword=keyword, pointer=place)
    return None


def _pattern_error(pattern: str) -> str:
    from llguidance import LLMatcher

    return grammar_error(LLMatcher.grammar_from_json_schema({"type": "string", "pattern": pattern}))


def _walk(schema: Schema, pointer: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every subschema that is an object, with its pointer, outermost first."""
    if isinstance(schema, bool):
        return
    yield pointer, schema
    children: list[tuple[str, Schema]] = []

    def collect(child: Schema, path: tuple[str, ...]) -> Schema:
        children.append((child_pointer(pointer, *path), child))
        return child

    map_subschemas(schema, collect)
    for child_place, child in children:
        yield from _walk(child, child_place)
