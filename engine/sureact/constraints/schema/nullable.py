"""OpenAPI's `nullable`, which JSON Schema does not know, written as JSON Schema has it."""

from __future__ import annotations

from typing import Any

from sureact.constraints.schema.keywords import IDENTIFIERS, Schema, map_subschemas


def with_null(schema: Schema) -> Schema:
    """Return `schema` with every `nullable: true` written as a union with null."""
    if isinstance(schema, bool):
        return schema
    written: dict[str, Any] = {}
    pending = [(schema, written)]

    def begin(child: Schema, _: tuple[str, ...]) -> Schema:
        if isinstance(child, bool):
            return child
        pending.append((child, {}))
        return pending[-1][1]

    while pending:
        source, target = pending.pop()
        plain = map_subschemas(source, begin)
        target.update(_null_allowed(plain) if plain.pop("nullable", False) is True else plain)
    return written


def _null_allowed(schema: dict[str, Any]) -> dict[str, Any]:
    """Add null to what a schema allows. What others may refer to stays where it was."""
    outside = {key: value for key, value in schema.items() if key in IDENTIFIERS | {"$defs", "definitions"}}
    inside = {key: value for key, value in schema.items() if key not in outside}
    return {**outside, "anyOf": [inside, {"type": "null"}]}
