"""Leaving out parts of a schema that llguidance fails to merge, or to hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sureact.constraints.schema.keywords import Schema

_IN_PLACE = frozenset({"$ref", "allOf", "anyOf"})
_TELLING = frozenset(
    {"type", "enum", "const", "properties", "patternProperties", "additionalProperties", "prefixItems", "items"}
)
_OUTLINE = frozenset(
    {"type", "enum", "const", "properties", "required", "additionalProperties", "prefixItems", "items", "$ref", "anyOf"}
)


def recursive_names(definitions: Mapping[str, Schema]) -> frozenset[str]:
    """Return the definitions that contain themselves, and those that lie between two such ones."""
    targets = {name: set(_references(schema)) for name, schema in definitions.items()}
    sources: dict[str, set[str]] = {name: set() for name in targets}
    for name, referred in targets.items():
        for target in referred:
            sources[target].add(name)
    return frozenset(_with_edges(targets, sources) & _with_edges(sources, targets))


def _with_edges(forward: dict[str, set[str]], backward: dict[str, set[str]]) -> set[str]:
    """Return what is left when nodes without an edge to a node that is left are taken away."""
    num_edges = {name: len(reached) for name, reached in forward.items()}
    loose = [name for name, count in num_edges.items() if count == 0]
    left = set(num_edges) - set(loose)
    while loose:
        for source in backward[loose.pop()]:
            num_edges[source] -= 1
            if num_edges[source] == 0:
                left.discard(source)
                loose.append(source)
    return left


def _references(schema: object) -> Iterator[str]:
    pending: list[object] = [schema]
    while pending:
        here = pending.pop()
        if isinstance(here, dict):
            members = cast("dict[str, object]", here)
            if isinstance(ref := members.get("$ref"), str):
                yield ref.rpartition("/")[2]
            pending.extend(members.values())
        elif isinstance(here, list):
            pending.extend(cast("list[object]", here))


def without_recursion(schema: dict[str, Any], recursive: frozenset[str]) -> dict[str, Any]:
    """Return `schema` without what would be merged with a definition that contains itself."""
    if len(schema) == 1 and len(schema.get("allOf", ())) < 2:
        return schema
    if _is_recursive({"$ref": schema.get("$ref", "")}, recursive):
        return {"$ref": schema["$ref"]}
    kept = dict(schema)
    if len(schema) > 1 and _is_recursive({"anyOf": schema.get("anyOf", ())}, recursive):
        del kept["anyOf"]
    parts = [part for part in schema.get("allOf", ()) if not _is_recursive(part, recursive)]
    if len(parts) < len(schema.get("allOf", ())):
        kept["allOf"] = parts
    return schema if kept == schema else kept


def _is_recursive(schema: Schema, recursive: frozenset[str]) -> bool:
    """Whether something that applies in place refers to a definition that contains itself."""
    if isinstance(schema, bool):
        return False
    parts: list[Schema] = [part for keyword in ("allOf", "anyOf", "oneOf") for part in schema.get(keyword, ())]
    return schema.get("$ref", "").rpartition("/")[2] in recursive or any(
        _is_recursive(part, recursive) for part in parts
    )


def merged_into_one(schema: dict[str, Any]) -> Schema:
    """Return `schema` with nothing to merge: its own keywords, or else one that applies in place."""
    if _IN_PLACE.isdisjoint(schema) or (len(schema) == 1 and "allOf" not in schema):
        return schema
    if not _TELLING.isdisjoint(schema):
        return {keyword: value for keyword, value in schema.items() if keyword not in _IN_PLACE}
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    if "anyOf" in schema:
        return {"anyOf": schema["anyOf"]}
    return next((part for part in schema["allOf"] if part is not True), True)


def skeleton(schema: dict[str, Any]) -> Schema:
    """Return what a schema says about types, names, items and constants, with nothing to merge."""
    outline: Schema = merged_into_one(schema)
    if isinstance(outline, bool):
        return outline
    kept = {keyword: value for keyword, value in outline.items() if keyword in _OUTLINE}
    if "patternProperties" in outline:
        kept.pop("additionalProperties", None)
    return kept
