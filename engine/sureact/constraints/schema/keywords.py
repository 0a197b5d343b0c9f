"""What each JSON-schema keyword means to a grammar: where its subschemas are, and whether it can be enforced."""

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

ENFORCED = (
    SCHEMA_LISTS
    | IDENTIFIERS
    | {"properties", "patternProperties", "additionalProperties", "items", "additionalItems", "$defs", "definitions"}
    | {"$ref", "type", "enum", "const", "format", "pattern", "minLength", "maxLength"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minItems", "maxItems", "required", "minProperties", "maxProperties"}
)
"""Keywords that a grammar can hold."""

ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment"}
    | {"contentEncoding", "contentMediaType", "contentSchema", "$vocabulary"}
    | {"discriminator", "xml", "externalDocs"}
)
"""Keywords that tell a reader something and leave every value as valid as before; the last three are OpenAPI's."""

NOT_ENFORCED = frozenset(
    {"not", "if", "then", "else", "uniqueItems", "contains", "minContains", "maxContains", "propertyNames"}
    | {"dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties", "unevaluatedItems"}
    | {"$dynamicRef", "$recursiveRef"}
)
"""Keywords that llguidance 1.9 has no grammar for."""

GRAMMAR_FORMATS = frozenset(
    {"date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"}
)
"""Formats that a grammar can hold."""

ASSERTED_FORMATS = GRAMMAR_FORMATS | {
    "idn-email",
    "idn-hostname",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "uri-reference",
    "uri-template",
}
"""Formats that are enforced, in schemas of every draft; every other `format` is an annotation."""


def is_annotation(keyword: str) -> bool:
    """Whether a keyword constrains nothing; anything that starts with `x-` does not."""
    return keyword in ANNOTATIONS or keyword.startswith("x-")


def is_vacuous(keyword: str, schema: dict[str, Any]) -> bool:
    """Whether a keyword that cannot be enforced asks for nothing here, such as `uniqueItems: false`."""
    value = schema[keyword]
    match keyword:
        case "uniqueItems" | "not":
            return value is False
        case "unevaluatedProperties" | "unevaluatedItems":
            return value is True or value == {}
        case "propertyNames":
            return value is True or value in ({}, {"type": "string"})
        case "dependentRequired" | "dependentSchemas" | "dependencies":
            return value == {}
        case "minContains" | "maxContains":
            return "contains" not in schema
        case "if":
            return "then" not in schema and "else" not in schema
        case "then" | "else":
            return "if" not in schema
        case _:
            return False


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
