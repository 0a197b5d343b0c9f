"""How keywords about scalars, arrays and constants are written for llguidance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from sureact.constraints.schema.ecma_pattern import pattern_parts
from sureact.constraints.schema.format_patterns import FORMAT_PATTERNS, INEXACT_FORMATS
from sureact.constraints.schema.spelling import (
    is_ascii_pattern,
    is_countable,
    is_plain_number,
    is_spellable,
    is_spellable_text,
    multiple_of,
    name_pattern,
)
from sureact.constraints.schema.text_tests import is_exact_in_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from sureact.constraints.schema.grammar_writer import GrammarWriter, Node
    from sureact.constraints.schema.keywords import Schema

_COUNTED_GROUP = re.compile(r"\)\{[0-9]*,?[0-9]{2,}")
_MAX_LENGTH_BESIDE_COUNTS = 100
_MAX_COMPOUND_CONSTANTS = 4_000
"""Objects and arrays among the constants; ten thousand are more symbols than llguidance 1.9 counts."""


def _write_enum(writer: GrammarWriter, node: Node, keyword: str, values: list[Any]) -> None:
    scalars = [value for value in values if not isinstance(value, dict | list)]
    if len(values) - len(scalars) > _MAX_COMPOUND_CONSTANTS:
        writer.is_exact = False
        nested: Schema = {"type": ["array", "object"]}
        node.extras.append({"anyOf": [{"enum": scalars}, nested]} if scalars else nested)
        return
    others = [value for value in values if not _is_simple(writer, value)]
    if not others:
        node.written[keyword] = values
        return
    simple: list[Schema] = [{"enum": [value for value in values if _is_simple(writer, value)]}]
    written = [_constant(writer, value) for value in others]
    node.extras.append({"anyOf": [*simple, *written] if len(others) < len(values) else written})


def _write_const(writer: GrammarWriter, node: Node, keyword: str, value: Any) -> None:
    if _is_simple(writer, value):
        node.written[keyword] = value
    else:
        node.extras.append(_constant(writer, value))


def _is_simple(writer: GrammarWriter, value: Any) -> bool:
    """Whether a constant can be left as it is."""
    if writer.any_order and isinstance(value, dict | list):
        return False
    return is_spellable(value, ensure_ascii=writer.ensure_ascii)


def _constant(writer: GrammarWriter, value: Any) -> Schema:
    """Return a schema for a constant whose keys may come in any order, or that cannot be spelled."""
    if isinstance(value, list):
        items: list[Schema] = [_constant(writer, item) for item in cast("list[Any]", value)]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if isinstance(value, dict):
        writer.is_exact = False
        members = cast("dict[str, Any]", value)
        if not writer.any_order:
            return {"type": "object", "minProperties": len(members), "maxProperties": len(members)}
        return _unordered_constant(writer, members)
    if is_spellable(value, ensure_ascii=writer.ensure_ascii):
        return {"const": value}
    writer.is_exact = False
    return {"type": "string" if isinstance(value, str) else "integer" if isinstance(value, int) else "number"}


def _unordered_constant(writer: GrammarWriter, members: dict[str, Any]) -> Schema:
    counts = {"minProperties": len(members), "maxProperties": len(members)}
    patterns: dict[str, Schema] = {}
    for name, value in members.items():
        pattern = name_pattern(name)
        if pattern is None or not is_spellable_text(name, ensure_ascii=writer.ensure_ascii):
            return {"type": "object", **counts}
        patterns[pattern] = _constant(writer, value)
    return {"type": "object", "patternProperties": patterns, "additionalProperties": False, **counts}


def _write_pattern(writer: GrammarWriter, node: Node, keyword: str, pattern: str) -> None:
    parts = pattern_parts(pattern)
    writer.is_exact &= not parts.forbidden and all(map(is_exact_in_json, parts.required))
    for part in parts.required:
        if not _is_usable(writer, part):
            writer.is_exact = False
        elif keyword in node.written:
            node.extras.append({keyword: part})
        else:
            node.written[keyword] = part


def _is_usable(writer: GrammarWriter, pattern: str) -> bool:
    if writer.ensure_ascii and not is_ascii_pattern(pattern):
        return False
    return pattern not in writer.leeway.bad_patterns and is_spellable_text(pattern, ensure_ascii=False)


def _write_format(writer: GrammarWriter, node: Node, keyword: str, name: str) -> None:
    pattern = FORMAT_PATTERNS.get(name)
    if pattern is None or pattern in writer.leeway.bad_patterns:
        writer.is_exact = False
        return
    writer.is_exact &= name not in INEXACT_FORMATS
    if "pattern" in node.source:
        node.extras.append({"pattern": pattern})
    else:
        node.written["pattern"] = pattern


def _write_bound(writer: GrammarWriter, node: Node, keyword: str, bound: float) -> None:
    if is_plain_number(bound):
        node.written[keyword] = bound
    else:
        writer.is_exact = False


def _write_length(writer: GrammarWriter, node: Node, keyword: str, length: int) -> None:
    if is_countable(length) and not _is_too_much(node.source.get("pattern", ""), length):
        node.written[keyword] = length
    else:
        writer.is_exact = False


def _is_too_much(pattern: str, length: int) -> bool:
    """Whether counting characters beside a pattern that counts too takes more states than llguidance 1.9 allows.

    It compiles then, and refuses valid texts.
    """
    return length > _MAX_LENGTH_BESIDE_COUNTS and _COUNTED_GROUP.search(pattern) is not None


def _write_multiple_of(writer: GrammarWriter, node: Node, keyword: str, divisor: float) -> None:
    written = multiple_of(divisor)
    writer.is_exact &= written == divisor
    if written is not None:
        node.written[keyword] = written


def _write_count(writer: GrammarWriter, node: Node, keyword: str, count: int) -> None:
    if is_countable(count):
        node.written[keyword] = count
    else:
        writer.is_exact = False


def _write_items(writer: GrammarWriter, node: Node, keyword: str, items: Schema) -> None:
    written = writer.subschema(items, node.depth, may_be_open=node.may_be_open)
    if written is not True:
        node.written[keyword] = written


def _write_prefix_items(writer: GrammarWriter, node: Node, keyword: str, prefix: list[Schema]) -> None:
    node.written[keyword] = [writer.subschema(item, node.depth, may_be_open=node.may_be_open) for item in prefix]


VALUE_KEYWORDS: dict[str, Callable[[GrammarWriter, Node, str, Any], None]] = {
    "enum": _write_enum,
    "const": _write_const,
    "pattern": _write_pattern,
    "format": _write_format,
    "minimum": _write_bound,
    "maximum": _write_bound,
    "exclusiveMinimum": _write_bound,
    "exclusiveMaximum": _write_bound,
    "multipleOf": _write_multiple_of,
    "minLength": _write_length,
    "maxLength": _write_length,
    "minItems": _write_count,
    "maxItems": _write_count,
    "items": _write_items,
    "prefixItems": _write_prefix_items,
}
