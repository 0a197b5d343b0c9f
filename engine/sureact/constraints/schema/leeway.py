"""How much looser than its schema a grammar has to be, so that llguidance compiles it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from sureact.constraints.byte_matcher import grammar_error

Omission = Literal[
    "counts", "groups", "overlaps", "name patterns", "patterns", "recursion", "unions", "merging", "details"
]
"""What is left out, or written in a looser way."""

_REMEDIES: tuple[tuple[str, Omission], ...] = (
    ("min/maxProperties", "counts"),
    ("are not disjoint", "groups"),
    ("are not disjoint", "overlaps"),
    ("are not disjoint", "name patterns"),
    ("regex", "patterns"),
    ("circular references", "recursion"),
    ("too large", "unions"),
    ("", "merging"),
    ("", "details"),
)
"""What llguidance says, and what to leave out then; the last ones help against anything."""
_DECLARING: frozenset[Omission] = frozenset({"recursion", "merging", "details"})
_EMPTY_DEFINITION = re.compile(r"Unsatisfiable schema[^$]*while processing json-schema:///#/\$defs/(\S+)")
"""llguidance 1.9 gives up when a definition allows nothing, even if no value needs it."""
_MAX_TRIED_PATTERNS = 200


@dataclass(frozen=True, slots=True)
class Leeway:
    """What a grammar does not hold that it could hold for other schemas."""

    omitted: frozenset[Omission] = frozenset()
    bad_patterns: frozenset[str] = frozenset()
    """Regexes that llguidance cannot compile."""
    empty_definitions: frozenset[str] = frozenset()
    """Definitions that allow nothing."""

    @property
    def loses_key_order(self) -> bool:
        """Whether what is left out may declare keys that come before those that are left."""
        return not self.omitted.isdisjoint(_DECLARING)

    def after(self, schema: dict[str, Any], reason: str | None = None) -> Leeway | None:
        """Return the leeway to try when llguidance refused a schema written with this one; None: no other is left.

        Args:
            schema: as it was written.
            reason: of llguidance; None to find it out.
        """
        reason = compile_error(schema) if reason is None else reason
        empty = _EMPTY_DEFINITION.search(reason)
        if empty and empty[1] not in self.empty_definitions:
            return replace(self, empty_definitions=self.empty_definitions | {empty[1]})
        for text, omission in _REMEDIES:
            if text in reason and omission not in self.omitted:
                bad = _bad_patterns(schema) if omission == "patterns" else self.bad_patterns
                return replace(self, omitted=self.omitted.union((omission,)), bad_patterns=bad)
        return None


def proves_unsatisfiable(reason: str) -> bool:
    """Whether llguidance refused a schema for a reason that no leeway can do away with."""
    return "Unsatisfiable schema" in reason and _EMPTY_DEFINITION.search(reason) is None


def compile_error(schema: dict[str, Any]) -> str:
    """Return why llguidance refuses a schema, or the empty text."""
    from llguidance import LLMatcher

    try:
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema))
    except ValueError as error:
        return str(error)
    return grammar_error(grammar)


def _bad_patterns(schema: dict[str, Any]) -> frozenset[str]:
    """Return the patterns in `schema` that llguidance cannot compile; all of them when no single one is at fault."""
    patterns = _patterns(schema)
    if len(patterns) > _MAX_TRIED_PATTERNS:
        return frozenset(patterns)
    return frozenset({pattern for pattern in patterns if _is_refused(pattern)} or patterns)


def _is_refused(pattern: str) -> bool:
    return bool(compile_error({"type": "string", "pattern": pattern}))


def _patterns(schema: dict[str, Any]) -> set[str]:
    """Return all regexes of a written schema."""
    found: set[str] = set()
    pending: list[object] = [schema]
    while pending:
        here = pending.pop()
        if isinstance(here, dict):
            members = cast("dict[str, Any]", here)
            pending.extend(members.values())
            if isinstance(pattern := members.get("pattern"), str):
                found.add(pattern)
            if isinstance(names := members.get("patternProperties"), dict):
                found.update(cast("dict[str, object]", names))
        elif isinstance(here, list):
            pending.extend(cast("list[object]", here))
    return found
