"""The keywords of JSON schemas: where their subschemas are, and which of them constrain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

Schema: TypeAlias = dict[str, Any] | bool
Transform: TypeAlias = Callable[[Schema, tuple[str, ...]], Schema]

MAX_DEPTH = 250
"""Levels of schemas inside schemas that are served: few enough for every step to recurse over them."""

SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
"""Keywords whose value maps names to subschemas; `dependencies` may also map them to lists of names."""
SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords whose value is a list of subschemas."""
SINGLE_SCHEMAS = frozenset(
    {"items", "additionalItems", "unevaluatedItems", "contains"}
    | {"additionalProperties", "unevaluatedProperties", "propertyNames"}
    | {"not", "if", "then", "else"}
)
"""Keywords whose value is one subschema; before draft 2020-12 `items` may be a list of them."""

IDENTIFIERS = frozenset({"$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"})
"""Keywords that name a schema and constrain nothing."""

CONSTRAINTS = (
    SCHEMA_MAPS
    | SCHEMA_LISTS
    | SINGLE_SCHEMAS
    | {"$ref", "$dynamicRef", "$recursiveRef", "type", "enum", "const", "format", "pattern", "minLength", "maxLength"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minItems", "maxItems", "uniqueItems", "minContains", "maxContains"}
    | {"required", "minProperties", "maxProperties", "dependentRequired"}
)
"""Keywords that say which values are valid."""

ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment"}
    | {"contentEncoding", "contentMediaType", "contentSchema", "$vocabulary"}
    | {"discriminator", "xml", "externalDocs"}
)
"""Keywords that tell a reader something and leave every value as valid as before; the last three are OpenAPI's."""

ASSERTED_FORMATS = frozenset(
    {"date", "time", "date-time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6"}
    | {"uri", "uri-reference", "uri-template", "iri", "iri-reference", "uuid"}
    | {"json-pointer", "relative-json-pointer", "regex"}
)
"""Formats that are enforced, in schemas of every draft; every other `format` is an annotation."""


def is_annotation(keyword: str) -> bool:
    """Whether a keyword constrains nothing; anything that starts with `x-` does not."""
    return keyword in ANNOTATIONS or keyword.startswith("x-")


def map_subschemas(schema: dict[str, Any], transform: Transform) -> dict[str, Any]:
    """Return a copy of `schema` with every direct subschema replaced.

    Args:
        schema: not changed.
        transform: gets a subschema and the path to it from `schema`, such as `("properties", "a")`.
    """
    mapped: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in SCHEMA_MAPS and isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            mapped[keyword] = {name: _transformed(child, transform, keyword, name) for name, child in members.items()}
        elif isinstance(value, list) and (keyword in SCHEMA_LISTS or keyword == "items"):
            children = cast("list[Any]", value)
            mapped[keyword] = [_transformed(child, transform, keyword, str(i)) for i, child in enumerate(children)]
        elif keyword in SINGLE_SCHEMAS:
            mapped[keyword] = _transformed(value, transform, keyword)
        else:
            mapped[keyword] = value
    return mapped


def _transformed(child: Any, transform: Transform, *path: str) -> Any:
    """Transform what is a schema; in a draft that lacks the keyword, or in `dependencies`, other values stay."""
    return transform(child, path) if isinstance(child, dict | bool) else child
