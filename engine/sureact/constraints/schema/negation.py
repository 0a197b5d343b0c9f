"""What a schema does not allow, as a schema: what `not` means to a grammar that has none."""

from __future__ import annotations

from typing import Any

from sureact.constraints.schema.keywords import Schema

_TYPES = ("null", "boolean", "object", "array", "string", "number")
_MAX_DEPTH = 4
_OPPOSITE_BOUNDS = {
    "minimum": "exclusiveMaximum",
    "exclusiveMinimum": "maximum",
    "maximum": "exclusiveMinimum",
    "exclusiveMaximum": "minimum",
}
_OPPOSITE_COUNTS = {
    "minLength": ("maxLength", -1),
    "maxLength": ("minLength", 1),
    "minItems": ("maxItems", -1),
    "maxItems": ("minItems", 1),
    "minProperties": ("maxProperties", -1),
    "maxProperties": ("minProperties", 1),
}
_CONSTRAINED_TYPE = {
    **dict.fromkeys((*_OPPOSITE_BOUNDS, "multipleOf"), "number"),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), "string"),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "items", "prefixItems", "contains"), "array"),
    **dict.fromkeys(("properties", "required", "patternProperties", "additionalProperties"), "object"),
    **dict.fromkeys(("minProperties", "maxProperties", "propertyNames", "dependentRequired"), "object"),
}
"""Keyword to the only type of value that can violate it."""
_HELPERS = frozenset({"minContains", "maxContains"})
"""Keywords that only say how another one is meant."""


def negated(schema: Schema, depth: int = 0) -> tuple[Schema, bool]:
    """Return a schema that allows all that `schema` forbids, and whether it allows nothing else.

    A schema about which nothing is known becomes True, which allows everything.
    """
    if isinstance(schema, bool):
        return not schema, True
    if depth > _MAX_DEPTH:
        return True, False
    # A value that violates a schema violates one of its keywords.
    parts = [_negated_keyword(schema, keyword, depth) for keyword in schema if keyword not in _HELPERS]
    return any_of([part for part, _ in parts]), all(is_exact for _, is_exact in parts)


def any_of(options: list[Schema]) -> Schema:
    """Return a schema that allows what one of `options` does."""
    possible = [option for option in options if option is not False]
    if not possible or True in possible:
        return bool(possible)
    return possible[0] if len(possible) == 1 else {"anyOf": possible}


def all_of(parts: list[Schema]) -> Schema:
    """Return a schema that allows what all of `parts` do."""
    telling = [part for part in parts if part is not True]
    if not telling or False in telling:
        return not telling
    return telling[0] if len(telling) == 1 else {"allOf": telling}


def _negated_keyword(schema: dict[str, Any], keyword: str, depth: int) -> tuple[Schema, bool]:
    value = schema[keyword]
    match keyword:
        case "type":
            return _other_types([value] if isinstance(value, str) else value)
        case "const":
            return _other_values([value])
        case "enum":
            return _other_values(value)
        case "not":
            return value, True
        case "required":
            absent: list[Schema] = [{"type": "object", "properties": {name: False}} for name in value]
            return any_of(absent), True
        case "properties":
            return _other_properties(value, depth)
        case "anyOf" | "allOf":
            parts = [negated(part, depth + 1) for part in value]
            join = all_of if keyword == "anyOf" else any_of
            return join([part for part, _ in parts]), all(is_exact for _, is_exact in parts)
        case _:
            return _out_of_bound(keyword, value)


def _out_of_bound(keyword: str, value: Any) -> tuple[Schema, bool]:
    constrained = _CONSTRAINED_TYPE.get(keyword)
    if constrained is None:
        return True, False
    if keyword in _OPPOSITE_BOUNDS:
        return {"type": constrained, _OPPOSITE_BOUNDS[keyword]: value}, True
    if keyword in _OPPOSITE_COUNTS:
        opposite, step = _OPPOSITE_COUNTS[keyword]
        return {"type": constrained, opposite: value + step}, True
    return {"type": constrained}, False


def _other_types(types: list[str]) -> tuple[Schema, bool]:
    others = [name for name in _TYPES if name not in types]
    # What is a number and no integer has no name.
    is_exact = "integer" not in types or "number" in types
    return {"type": others} if others else False, is_exact


def _other_values(values: list[Any]) -> tuple[Schema, bool]:
    """Return what is left of null, true, false and the empty string; of other values nothing can be told."""
    spared: list[Schema] = []
    taken: list[str] = []
    if None in values:
        taken.append("null")
    booleans = {value for value in values if isinstance(value, bool)}
    if booleans:
        taken.append("boolean")
        spared += [{"const": value} for value in (True, False) if value not in booleans]
    if "" in values:
        taken.append("string")
        spared.append({"type": "string", "minLength": 1})
    others, _ = _other_types(taken)
    is_exact = all(value is None or isinstance(value, bool) or value == "" for value in values)
    return any_of([others, *spared]) if taken else True, is_exact


def _other_properties(properties: dict[str, Schema], depth: int) -> tuple[Schema, bool]:
    options: list[Schema] = []
    is_exact = True
    for name, child in properties.items():
        other, is_child_exact = negated(child, depth + 1)
        is_exact &= is_child_exact
        if other is not False:
            options.append({"type": "object", "properties": {name: other}, "required": [name]})
    return any_of(options), is_exact
