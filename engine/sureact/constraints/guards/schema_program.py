"""A normal schema as checks that judge values while they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from sureact.constraints.guards.partial_value import Kind, PartialValue
    from sureact.constraints.guards.verdict import Verdict
    from sureact.constraints.schema.keywords import Schema
    from sureact.constraints.schema.normal_form import NormalSchema

Check: TypeAlias = "Callable[[Any, Judgement], Verdict]"
"""Judges a value, or the `None` of one that has not begun, by one keyword."""


class Judgement:
    """One look at the text.

    Attributes:
        version: grows with the text; verdicts that are not final hold for one version.
        saw_open_string: a check looked at a string that is being written, so its next characters matter.
        evaluated: what is known of children that a schema evaluates, by schema, value and index.
    """

    __slots__ = ("evaluated", "saw_open_string", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.saw_open_string = False
        self.evaluated: dict[tuple[int, int, int], Verdict] = {}


class SchemaNode:
    """A subschema; its checks are made when the first value comes to it.

    Attributes:
        constant: the verdict of the schemas `true` and `false`; None for all others.
    """

    __slots__ = ("_can_dead_end", "_checks", "_program", "_schema", "constant")

    def __init__(self, schema: Schema, program: SchemaProgram) -> None:
        self.constant = schema if isinstance(schema, bool) else None
        self._schema: dict[str, Any] = {} if isinstance(schema, bool) else schema
        self._program = program
        self._checks: dict[Kind, list[Check]] | None = None
        self._can_dead_end = False

    def verdict(self, value: PartialValue | None, judgement: Judgement) -> Verdict:
        """Judge a value; None is one that must come and has not begun.

        Values nest as deep as Python calls do, so this and the checks take few calls per level.
        """
        if self.constant is not None or value is None:
            return self.constant
        known = value.memo.get(self)
        if known is not None and (known[1] is not None or known[0] == judgement.version):
            return known[1]
        checks = (self._checks if self._checks is not None else self._make_checks()).get(value.kind)
        if checks is None:
            return True
        if self._can_dead_end:
            value.is_held = True
        result: Verdict = True
        for check in checks:
            verdict = check(value, judgement)
            if verdict is not True:
                result = verdict
                if verdict is False:
                    break
        if result is None:
            judgement.saw_open_string |= value.kind == "string"
            # Digits can lead where no end is valid.
            value.is_held |= value.kind == "number"
        value.memo[self] = (judgement.version, result)
        return result

    def _make_checks(self) -> dict[Kind, list[Check]]:
        from sureact.constraints.guards.keyword_checks import KEYWORD_CHECKS

        checks: dict[Kind, list[Check]] = {}
        for entry in KEYWORD_CHECKS:
            if any(keyword in self._schema for keyword in entry.keywords):
                check = entry.make(self._schema, self._program)
                self._can_dead_end |= not self._schema.keys().isdisjoint(entry.dead_ends)
                for kind in entry.kinds:
                    checks.setdefault(kind, []).append(check)
        # Last: another thread may be about to ask.
        self._checks = checks
        return checks


class SchemaProgram:
    """All subschemas of a normal schema as nodes.

    Attributes:
        definitions: what references point to.
        sees_certainty: whether it is worth its price to see early that a value is valid whatever comes.
        negatable: the same subschemas where it is: some of them make a value invalid by being valid.
    """

    def __init__(self, schema: NormalSchema, *, sees_certainty: bool = False) -> None:
        self.definitions = schema.definitions
        self.sees_certainty = sees_certainty
        self.negatable = self if sees_certainty else SchemaProgram(schema, sees_certainty=True)
        self._nodes: dict[int, SchemaNode] = {}
        self._true, self._false = SchemaNode(True, self), SchemaNode(False, self)
        self.root = self.node(schema.root)

    def node(self, schema: Schema) -> SchemaNode:
        """Return the node of a subschema."""
        if isinstance(schema, bool):
            return self._true if schema else self._false
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = SchemaNode(schema, self)
        return node

    def definition(self, ref: str) -> Schema:
        """Return the subschema that a reference points to."""
        return self.definitions[ref.removeprefix("#/$defs/")]
