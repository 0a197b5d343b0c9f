"""What is done to a checked schema before llguidance sees it.

Each step leaves the set of valid values as it was, but for closing, which is asked for: annotations and unknown formats
go, `nullable` and provably disjoint `oneOf` become `anyOf`, objects are closed.
"""

from __future__ import annotations

from typing import Any

from sureact.constraints.schema.disjointness import tagged_branches
from sureact.constraints.schema.format_patterns import FORMAT_PATTERNS
from sureact.constraints.schema.keywords import (
    ENFORCED,
    GRAMMAR_FORMATS,
    IDENTIFIERS,
    Schema,
    is_vacuous,
    map_subschemas,
)
from sureact.constraints.schema.object_closing import close_objects

_NULL: Schema = {"type": "null"}


def prepare_schema(schema: Schema, *, closed: bool) -> dict[str, Any]:
    """Return the schema to build a grammar from.

    Args:
        schema: one that `check_schema` lets pass; not changed.
        closed: whether objects that declare `properties` and are silent on extras allow no extras.
    """
    prepared = _simplified(schema, schema)
    if closed:
        prepared = close_objects(prepared)
    return {"anyOf": []} if prepared is False else {} if prepared is True else prepared


def with_null(schema: Schema) -> Schema:
    """Return `schema` with OpenAPI's `nullable: true` written as JSON Schema has it, at every depth."""
    if isinstance(schema, bool):
        return schema
    plain = map_subschemas(schema, lambda child, _: with_null(child))
    is_nullable = plain.pop("nullable", False)
    return _null_allowed(plain) if is_nullable else plain


def _null_allowed(schema: dict[str, Any]) -> dict[str, Any]:
    """Add null to what a schema allows. What others may refer to stays where it was."""
    outside = {key: value for key, value in schema.items() if key in IDENTIFIERS | {"$defs", "definitions"}}
    inside = {key: value for key, value in schema.items() if key not in outside}
    return {**outside, "anyOf": [inside, _NULL]}


def _simplified(schema: Schema, root: Schema) -> Schema:
    if isinstance(schema, bool):
        return schema
    kept = _with_format_pattern({key: value for key, value in schema.items() if _is_kept(key, schema)})
    if "oneOf" in kept:
        del kept["oneOf"]
        kept = _with_union(kept, tagged_branches(schema, root))
    kept = map_subschemas(kept, lambda child, _: _simplified(child, root))
    if schema.get("nullable") is True:
        return _null_allowed(kept)
    return kept["allOf"][0] if kept.keys() == {"allOf"} and len(kept["allOf"]) == 1 else kept


def _with_union(schema: dict[str, Any], branches: list[Schema]) -> dict[str, Any]:
    """Add `anyOf`, beside the `anyOf` that may be there."""
    if "anyOf" in schema:
        return {**schema, "allOf": [*schema.get("allOf", ()), {"anyOf": branches}]}
    return {**schema, "anyOf": branches}


def _with_format_pattern(schema: dict[str, Any]) -> dict[str, Any]:
    """Write a format of date or time as a pattern, beside the pattern that may be there."""
    pattern = FORMAT_PATTERNS.get(schema.get("format", ""))
    if pattern is None:
        return schema
    kept = {key: value for key, value in schema.items() if key != "format"}
    return (
        {**kept, "allOf": [*kept.get("allOf", ()), {"pattern": pattern}]}
        if "pattern" in kept
        else {**kept, "pattern": pattern}
    )


def _is_kept(keyword: str, schema: dict[str, Any]) -> bool:
    match keyword:
        case "format":
            return schema["format"] in GRAMMAR_FORMATS
        case "minProperties":
            return schema["minProperties"] > len(schema.get("required", ()))
        case _:
            return keyword in ENFORCED and not is_vacuous(keyword, schema)
