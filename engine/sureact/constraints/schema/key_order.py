"""Objects whose keys may come in any order.

llguidance takes the keys of `properties` in their order, and keys that match a pattern as they come. So a declared name
becomes a pattern that only this name matches. What is required, and that no key comes twice, is left to others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sureact.constraints.schema.spelling import name_pattern
from sureact.constraints.schema.text_tests import pattern_matches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sureact.constraints.schema.keywords import Schema
    from sureact.constraints.schema.normal_form import NormalSchema

_ORDERED = frozenset({"properties", "required", "patternProperties"})
_MAX_SINGLE_PATTERNS = 24
"""llguidance compares all patterns of an object with each other; beyond this, names with equal schemas share one."""
_MAX_PATTERNS = 64
"""Beyond this, names share a pattern whatever their schemas; comparing 300 patterns takes two seconds."""


def in_any_order(schema: dict[str, Any], *, grouped: bool) -> dict[str, Any]:
    """Return a schema that allows what `schema` allows, and that with its own keys in any order.

    Args:
        schema: in normal form; not changed. Its subschemas, also those that apply in place, stay as they are.
        grouped: whether many names may share patterns; such patterns cannot be merged with others.
    """
    if _ORDERED.isdisjoint(schema):
        return schema
    kept = {keyword: value for keyword, value in schema.items() if keyword not in _ORDERED}
    num_required = len(set(schema.get("required", ())))
    if num_required:
        kept["minProperties"] = max(num_required, kept.get("minProperties", 0))
    patterns: dict[str, Schema] = dict(schema.get("patternProperties", {}))
    named: dict[str, Schema] = {}
    for name, child in schema.get("properties", {}).items():
        pattern = name_pattern(name)
        if pattern is None:
            kept.pop("additionalProperties", None)
        elif not any(pattern_matches(other, name) for other in patterns):
            # Two patterns for one name are refused.
            named[pattern] = child
    if grouped and len(named) > _MAX_SINGLE_PATTERNS:
        named = _grouped(named)
    if named or patterns:
        kept["patternProperties"] = {**named, **patterns}
    return kept


def can_run_out_of_keys(normal: NormalSchema) -> bool:
    """Whether keys in declared order can be used up before an object has as many as `minProperties` asks for.

    `{"b": 1` can get no `a` any more where that is declared first.
    """
    seen = set[tuple[int, bool]]()
    pending: list[tuple[Schema, bool]] = [(normal.root, False)]
    joined_asks = joined_is_closed = False
    while pending:
        schema, is_part = pending.pop()
        if isinstance(schema, bool) or (id(schema), is_part) in seen:
            continue
        seen.add((id(schema), is_part))
        parts = _parts_in_place(schema, normal.definitions)
        is_joined = is_part or (bool(parts) and (len(schema) > 1 or len(schema.get("allOf", ())) > 1))
        if _can_run_out(schema):
            return True
        joined_asks |= is_joined and _num_more(schema) > 0
        joined_is_closed |= is_joined and _is_closed(schema)
        pending += [(part, is_joined) for part in parts]
        pending += [(child, False) for child in _children(schema)]
    return joined_asks and joined_is_closed


def _can_run_out(schema: dict[str, Any]) -> bool:
    """Whether a schema by itself, without what applies in place, can run out of keys."""
    num_more = _num_more(schema)
    if num_more <= 0 or not _is_closed(schema):
        return False
    names = [name for name, child in schema.get("properties", {}).items() if child is not False]
    # A single one more can be had as long as one that may be left out comes last.
    return num_more > 1 or (bool(names) and names[-1] in schema.get("required", ()))


def _num_more(schema: dict[str, Any]) -> int:
    """Return how many keys an object needs beside those that are required."""
    return schema.get("minProperties", 0) - len(set(schema.get("required", ())))


def _is_closed(schema: dict[str, Any]) -> bool:
    is_closed = schema.get("additionalProperties") is False or schema.get("unevaluatedProperties") is False
    return is_closed and all(child is False for child in schema.get("patternProperties", {}).values())


def _parts_in_place(schema: dict[str, Any], definitions: Mapping[str, Schema]) -> list[Schema]:
    parts: list[Schema] = [part for keyword in ("allOf", "anyOf", "oneOf") for part in schema.get(keyword, ())]
    parts += [schema[keyword] for keyword in ("then", "else") if keyword in schema]
    parts += schema.get("dependentSchemas", {}).values()
    return [*parts, definitions[schema["$ref"].rpartition("/")[2]]] if "$ref" in schema else parts


def _children(schema: dict[str, Any]) -> list[Schema]:
    """Return the subschemas of members and items."""
    children: list[Schema] = [*schema.get("prefixItems", ())]
    for keyword in ("properties", "patternProperties"):
        children += schema.get(keyword, {}).values()
    single = ("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems")
    return children + [schema[keyword] for keyword in single if keyword in schema]


def _grouped(named: dict[str, Schema]) -> dict[str, Schema]:
    """Let names with equal schemas share one pattern, and if these are many, names with any."""
    groups: dict[str, tuple[list[str], Schema]] = {}
    for pattern, child in named.items():
        groups.setdefault(repr(child), ([], child))[0].append(pattern[1:-1])
    shared = list(groups.values())
    if len(shared) > _MAX_PATTERNS:
        shared = [_joined(shared[start::_MAX_PATTERNS]) for start in range(_MAX_PATTERNS)]
    return {f"^({'|'.join(names)})$" if len(names) > 1 else f"^{names[0]}$": child for names, child in shared}


def _joined(groups: list[tuple[list[str], Schema]]) -> tuple[list[str], Schema]:
    """Return the names of all groups, with a schema that allows what one of theirs does."""
    return [name for names, _ in groups for name in names], {"anyOf": [child for _, child in groups]}
