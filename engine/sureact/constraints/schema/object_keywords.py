"""How keywords about objects are written for llguidance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sureact.constraints.schema.ecma_pattern import pattern_parts
from sureact.constraints.schema.spelling import is_ascii_pattern, is_countable, is_spellable_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from sureact.constraints.schema.grammar_writer import GrammarWriter, Node
    from sureact.constraints.schema.keywords import Schema

_MAX_NAME_PATTERNS = 128
"""llguidance 1.9 compares them with each other, in time that grows with their cube: 160 take half a second."""


def _write_properties(writer: GrammarWriter, node: Node, keyword: str, properties: dict[str, Schema]) -> None:
    written: dict[str, Schema] = {}
    for name, child in properties.items():
        if is_spellable_text(name, ensure_ascii=writer.ensure_ascii):
            written[name] = writer.subschema(child, node.depth, may_be_open=node.may_be_open)
        else:
            _open(writer, node)
    node.written[keyword] = written


def _write_pattern_properties(writer: GrammarWriter, node: Node, keyword: str, patterns: dict[str, Schema]) -> None:
    writer.is_exact = False  # a key that a pattern allows may come twice
    written: dict[str, Schema] = {}
    for pattern, child in patterns.items():
        translated = _translated(writer, pattern)
        if translated is None or translated in written:
            _open(writer, node)
        else:
            written[translated] = writer.subschema(child, node.depth, may_be_open=node.may_be_open)
    if len(written) > (1 if "overlaps" in writer.omitted else _MAX_NAME_PATTERNS):
        written = {"|".join(f"({pattern})" for pattern in written): _union(list(written.values()))}
    node.written[keyword] = written


def _translated(writer: GrammarWriter, pattern: str) -> str | None:
    """Return a regex of llguidance for the same names, or None."""
    if "name patterns" in writer.omitted or not is_spellable_text(pattern, ensure_ascii=writer.ensure_ascii):
        return None
    if writer.ensure_ascii and not is_ascii_pattern(pattern):
        return None  # names in escapes match no pattern of llguidance
    translated, *others = (parts := pattern_parts(pattern)).required
    return None if others or parts.forbidden or translated in writer.leeway.bad_patterns else translated


def _union(schemas: list[Schema]) -> Schema:
    return True if True in schemas else {"anyOf": schemas}


def _write_additional(writer: GrammarWriter, node: Node, keyword: str, child: Schema) -> None:
    written = writer.subschema(child, node.depth, may_be_open=node.may_be_open)
    if written is not True:
        node.written[keyword] = written


def _write_required(writer: GrammarWriter, node: Node, keyword: str, names: list[str]) -> None:
    spellable = [name for name in names if is_spellable_text(name, ensure_ascii=writer.ensure_ascii)]
    writer.is_exact &= len(spellable) == len(names)
    if spellable:
        node.written[keyword] = spellable


def _write_num_properties(writer: GrammarWriter, node: Node, keyword: str, count: int) -> None:
    """Write a count, unless it says nothing; llguidance counts no declared key that may be left out."""
    source = node.source
    names, required = source.get("properties", {}), source.get("required", ())
    if keyword == "minProperties" and count <= len(set(required)):
        return
    is_closed = source.get("additionalProperties") is False and "patternProperties" not in source
    if keyword == "maxProperties" and is_closed and count >= len(names):
        return
    if "counts" in writer.omitted or not names.keys() <= set(required) or not is_countable(count):
        writer.is_exact = False
    else:
        node.written[keyword] = count


def _open(writer: GrammarWriter, node: Node) -> None:
    writer.is_exact = False
    node.is_open = True


OBJECT_KEYWORDS: dict[str, Callable[[GrammarWriter, Node, str, Any], None]] = {
    "properties": _write_properties,
    "patternProperties": _write_pattern_properties,
    "additionalProperties": _write_additional,
    "required": _write_required,
    "minProperties": _write_num_properties,
    "maxProperties": _write_num_properties,
}
