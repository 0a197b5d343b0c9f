"""Objects whose keys may come in any order.

llguidance takes the keys of `properties` in their order, and keys that match a pattern as they come. So a declared name
becomes a pattern that only this name matches. What is required, and that no key comes twice, is left to others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sureact.constraints.schema.spelling import name_pattern
from sureact.constraints.schema.text_tests import pattern_matches

if TYPE_CHECKING:
    from sureact.constraints.schema.keywords import Schema

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
