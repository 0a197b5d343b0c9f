"""Whether two schemas can be proven to share no value, so that `oneOf` means no more than `anyOf`."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sureact.constraints.schema.keywords import Schema

_ALL_TYPES = frozenset({"null", "boolean", "object", "array", "string", "integer", "fraction"})
_MAX_DEPTH = 8
_MAX_PAIRED = 8


def are_disjoint(left: Schema, right: Schema, definitions: Mapping[str, Schema], depth: int = 0) -> bool:
    """Whether no value can be valid under both schemas, as far as types, constants and tags can tell.

    False means not proven. `definitions` are what references point to.
    """
    if depth > _MAX_DEPTH:
        return False
    lefts, rights = _conjuncts(left, definitions), _conjuncts(right, definitions)
    if False in lefts or False in rights:
        return True
    shared_types = _types(lefts) & _types(rights)
    if not shared_types or _values_differ(lefts, rights):
        return True
    if shared_types <= {"object"} and _tags_differ(lefts, rights, definitions):
        return True
    return _options_disjoint(lefts, right, definitions, depth) or _options_disjoint(rights, left, definitions, depth)


def are_all_disjoint(branches: list[Schema], definitions: Mapping[str, Schema]) -> bool:
    """Whether no value can be valid under two of `branches`; many branches are told apart by one tag alone."""
    if len(branches) > _MAX_PAIRED:
        return _has_one_tag(branches, definitions)
    return all(are_disjoint(left, right, definitions) for left, right in combinations(branches, 2))


def _has_one_tag(branches: list[Schema], definitions: Mapping[str, Schema]) -> bool:
    """Whether all branches are objects that require a property which has other values in each."""
    parts = [_conjuncts(branch, definitions) for branch in branches]
    if not all(_types(part) <= {"object"} for part in parts):
        return False
    return any(
        _are_distinct([_property(part, name, definitions) for part in parts])
        for name in set[str].intersection(*(_required(part) for part in parts))
    )


def _are_distinct(properties: list[list[Schema]]) -> bool:
    """Whether each of the properties lists its values, and none lists what another one does."""
    seen: set[str] = set()
    for parts in properties:
        values = next(
            (own for part in parts if isinstance(part, dict) and (own := _own_values(part)) is not None), None
        )
        if values is None or values & seen:
            return False
        seen |= values
    return True


def _conjuncts(schema: Schema, definitions: Mapping[str, Schema], seen: frozenset[str] = frozenset()) -> list[Schema]:
    """List the schemas that all hold wherever `schema` does: itself, what it refers to, the parts of its `allOf`."""
    if isinstance(schema, bool):
        return [schema]
    found: list[Schema] = [schema]
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref not in seen:
        found += _conjuncts(definitions[ref.rpartition("/")[2]], definitions, seen | {ref})
    for part in schema.get("allOf", ()):
        found += _conjuncts(part, definitions, seen)
    return found


def _types(conjuncts: list[Schema]) -> frozenset[str]:
    types = _ALL_TYPES
    for part in conjuncts:
        if isinstance(part, dict):
            types &= _own_types(part)
    return types


def _own_types(schema: dict[str, Any]) -> frozenset[str]:
    types = _ALL_TYPES
    if "type" in schema:
        listed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        types = frozenset(
            atom for name in listed for atom in (("integer", "fraction") if name == "number" else (name,))
        )
    values = _own_values(schema)
    if values is not None:
        types &= frozenset(_type_of(json.loads(value)) for value in values)
    return types


def _own_values(schema: dict[str, Any]) -> frozenset[str] | None:
    """Return the values that `const` or `enum` list, as canonical JSON; None when any value may pass."""
    if "const" in schema:
        return frozenset({canonical(schema["const"])})
    if "enum" in schema:
        return frozenset(canonical(value) for value in schema["enum"])
    return None


def canonical(value: Any) -> str:
    """Write a value so that equal JSON values (1 and 1.0, not 1 and true) give equal texts."""
    return json.dumps(_integral(value), sort_keys=True)


def _integral(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_integral(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _integral(item) for name, item in cast("dict[str, Any]", value).items()}
    return value


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "fraction"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _values_differ(lefts: list[Schema], rights: list[Schema]) -> bool:
    left_sets = [values for part in lefts if isinstance(part, dict) and (values := _own_values(part)) is not None]
    right_sets = [values for part in rights if isinstance(part, dict) and (values := _own_values(part)) is not None]
    return any(not (left & right) for left in left_sets for right in right_sets)


def _tags_differ(lefts: list[Schema], rights: list[Schema], definitions: Mapping[str, Schema]) -> bool:
    """Whether some property, required on both sides, never has the same value on both."""
    return any(
        _values_differ(_property(lefts, name, definitions), _property(rights, name, definitions))
        for name in _required(lefts) & _required(rights)
    )


def _required(conjuncts: list[Schema]) -> set[str]:
    return {name for part in conjuncts if isinstance(part, dict) for name in part.get("required", ())}


def _property(conjuncts: list[Schema], name: str, definitions: Mapping[str, Schema]) -> list[Schema]:
    found: list[Schema] = []
    for part in conjuncts:
        if isinstance(part, dict) and name in part.get("properties", {}):
            found += _conjuncts(part["properties"][name], definitions)
    return found


def _options_disjoint(conjuncts: list[Schema], other: Schema, definitions: Mapping[str, Schema], depth: int) -> bool:
    """Whether one side is a union each option of which is disjoint from the other side."""
    return any(
        all(are_disjoint(option, other, definitions, depth + 1) for option in part[union])
        for part in conjuncts
        if isinstance(part, dict)
        for union in ("anyOf", "oneOf")
        if union in part
    )
