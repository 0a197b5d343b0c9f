"""Writing a schema in normal form as one that llguidance builds a grammar from.

What a grammar cannot hold is left out: the grammar then allows more than the schema, and `is_exact` says so.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple

from sureact.constraints.schema.evaluation import evaluation
from sureact.constraints.schema.key_order import in_any_order
from sureact.constraints.schema.object_keywords import OBJECT_KEYWORDS
from sureact.constraints.schema.reduction import merged_into_one, recursive_names, skeleton, without_recursion
from sureact.constraints.schema.rewriting import GRAMMAR_KEYWORDS, rewritten
from sureact.constraints.schema.value_keywords import VALUE_KEYWORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from sureact.constraints.schema.keywords import Schema
    from sureact.constraints.schema.leeway import Leeway
    from sureact.constraints.schema.normal_form import NormalSchema

_IN_PLACE = frozenset({"$ref", "allOf", "anyOf"})
_MAX_DEPTH = 20
"""Levels of subschemas in one piece: llguidance reads no JSON deeper than 128, and three levels can be one of ours."""
_MAX_EXPANDED_NESTING = 1
_MAX_CONDITIONS = 2
"""Every condition doubles the alternatives, and a mask takes the longer the more they are."""
_CONDITIONAL = frozenset({"if", "dependentRequired", "dependentSchemas"})
_MAX_SKELETON_DEPTH = 6
_MAX_ORDERED_PROPERTIES = 2_000
"""Optional keys in their order take llguidance 1.9 time that grows with their square: two thousand 0.2 seconds."""
_MAX_UNORDERED_PARTS = 64
"""It compares the patterns of keys in any order with each other, also those of schemas that are merged."""


class Around(NamedTuple):
    """What applies to the same value as a schema, around it."""

    nesting: int = 0
    """How many schemas."""
    names: AbstractSet[str] = frozenset()
    """Properties that they declare, where somebody asks."""


_NOTHING_AROUND = Around()


class Node:
    """A schema that is being written."""

    __slots__ = ("around", "depth", "extras", "is_limited", "is_open", "may_be_open", "source", "written")

    def __init__(
        self, source: dict[str, Any], depth: int, around: Around, *, is_limited: bool, may_be_open: bool
    ) -> None:
        self.source = source
        self.written: dict[str, Any] = {}
        self.extras: list[Schema] = []
        """What must hold beside what is written."""
        self.depth = depth
        """That of the subschemas."""
        self.around = around
        self.is_limited = is_limited
        """Whether it alone, without what applies in place, allows no more than it says."""
        self.may_be_open = may_be_open
        """Whether something else that applies to the same value says what is allowed."""
        self.is_open = False
        """Whether names that it declares could not be written, so that the rest must not be closed to them."""


class GrammarWriter:
    """Writes one schema once, and keeps whether anything was left out."""

    def __init__(self, normal: NormalSchema, leeway: Leeway, *, any_order: bool, ensure_ascii: bool) -> None:
        self.normal = normal
        self.leeway = leeway
        self.omitted = leeway.omitted
        self.any_order = any_order or leeway.loses_key_order
        self.ensure_ascii = ensure_ascii
        self.is_exact = True
        self._pending: dict[str, Schema] = {}
        self._definitions: dict[str, Schema] = {}
        self._num_pieces = 0
        self._recursive_names = recursive_names(normal.definitions) if "recursion" in self.omitted else frozenset[str]()

    def write(self) -> dict[str, Any]:
        """Return the schema for llguidance, its definitions included."""
        root = self.subschema(self.normal.root, 0)
        while self._pending:
            name, schema = self._pending.popitem()
            self._definitions[name] = self.subschema(schema, 0)
        document = ({} if root else {"anyOf": []}) if isinstance(root, bool) else root
        return {**document, "$defs": self._definitions} if self._definitions else document

    def subschema(
        self, schema: Schema, depth: int, around: Around = _NOTHING_AROUND, *, may_be_open: bool = False
    ) -> Schema:
        """Write one schema at a depth of its piece.

        Args:
            schema: in normal form.
            depth: of `schema` itself.
            around: what applies to the same value.
            may_be_open: whether something else that applies to the same value allows no more than it should.
        """
        if schema is False:
            return False
        if schema is not True and not schema.keys() <= GRAMMAR_KEYWORDS:
            expand = around.nesting <= _MAX_EXPANDED_NESTING and "unions" not in self.omitted
            schema, is_exact = rewritten(
                schema, self.normal.definitions, around.names, any_order=self.any_order, expand=expand
            )
            self.is_exact &= is_exact
        if self.omitted:
            schema = self._reduced(schema, depth)
        if isinstance(schema, bool) or not schema:
            self.is_exact &= may_be_open or schema is False
            return schema is not False
        if depth >= _MAX_DEPTH:
            return self._piece(schema)
        if self.any_order or _is_wide(schema):
            schema = self._in_any_order(schema)
        return self._written(schema, depth, around, may_be_open=may_be_open)

    def reference(self, name: str) -> str:
        """Have a definition written, and return the reference to it."""
        if name not in self._definitions:
            self._definitions[name] = True  # until its turn comes
            self._pending[name] = self.normal.definitions[name]
        return f"#/$defs/{name}"

    def _written(self, schema: dict[str, Any], depth: int, around: Around, *, may_be_open: bool) -> Schema:
        is_limited = may_be_open or self.is_limited(schema)
        if not is_limited and _IN_PLACE.isdisjoint(schema):
            self.is_exact = False
        node = Node(schema, depth + 1, around, is_limited=is_limited, may_be_open=may_be_open)
        written = node.written
        for keyword, value in schema.items():
            write = _WRITERS.get(keyword)
            if write is None:
                written[keyword] = value
            else:
                write(self, node, keyword, value)
        if node.is_open:
            written.pop("additionalProperties", None)
        if "additionalProperties" in written and not _IN_PLACE.isdisjoint(written):
            written = _with_own_together(written)
        return _with_extras(written, node.extras) if node.extras else written or True

    def is_limited(self, schema: dict[str, Any]) -> bool:
        """Whether the schema's own keywords leave nothing open that llguidance would fill with any JSON."""
        if "enum" in schema or "const" in schema:
            return True
        types = schema.get("type")
        if types is None:
            return False
        return all(self._is_type_limited(schema, name) for name in ((types,) if isinstance(types, str) else types))

    def _is_type_limited(self, schema: dict[str, Any], name: str) -> bool:
        match name:
            case "number":
                # Without both bounds, `1e999` is offered.
                return ("minimum" in schema or "exclusiveMinimum" in schema) and (
                    "maximum" in schema or "exclusiveMaximum" in schema
                )
            case "object":
                # Keys that a pattern allows may come twice.
                return schema.get("additionalProperties") is False and "patternProperties" not in schema
            case "array":
                return "items" in schema or schema.get("maxItems", 1) <= len(schema.get("prefixItems", ()))
            case _:
                return True

    def _piece(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Make a definition of what lies too deep, to be written later."""
        name = f"piece{self._num_pieces}"
        while name in self.normal.definitions:
            name += "_"
        self._num_pieces += 1
        self._definitions[name] = True
        self._pending[name] = schema
        return {"$ref": f"#/$defs/{name}"}

    def _in_any_order(self, schema: dict[str, Any]) -> dict[str, Any]:
        unordered = in_any_order(schema, grouped="groups" not in self.omitted)
        self.is_exact &= unordered is schema
        return unordered

    def _reduced(self, schema: Schema, depth: int) -> Schema:
        """Leave out what is to be omitted of a schema as a whole."""
        if isinstance(schema, bool):
            return schema
        if "details" in self.omitted:
            reduced = skeleton(schema) if depth < _MAX_SKELETON_DEPTH else True
        elif "merging" in self.omitted:
            reduced = merged_into_one(schema)
        elif "recursion" in self.omitted:
            reduced = without_recursion(schema, self._recursive_names)
        else:
            return schema
        self.is_exact &= reduced is schema
        return reduced


def _is_wide(schema: dict[str, Any]) -> bool:
    """Whether so many keys are optional that their order would cost too much, and unordered ones cost less."""
    num_optional = len(schema.get("properties", ())) - len(schema.get("required", ()))
    return num_optional > _MAX_ORDERED_PROPERTIES and len(schema.get("allOf", ())) <= _MAX_UNORDERED_PARTS


def _with_own_together(written: dict[str, Any]) -> dict[str, Any]:
    """Let what applies in place stand before or after the schema's own keywords, as it stands to `properties`.

    llguidance 1.9 reads keywords up to `allOf`, `anyOf` or `$ref` as one schema, whose `additionalProperties` does not
    see patterns that come later.
    """
    keywords = list(written)
    here = keywords.index("properties") if "properties" in written else 0
    before = [keyword for keyword in keywords[:here] if keyword in _IN_PLACE]
    own = [keyword for keyword in keywords if keyword not in _IN_PLACE]
    after = [keyword for keyword in keywords[here:] if keyword in _IN_PLACE]
    return {keyword: written[keyword] for keyword in (*before, *own, *after)}


def _with_extras(written: dict[str, Any], extras: list[Schema]) -> Schema:
    # What is added comes last: the order of keywords is the order of keys.
    if not written and len(extras) == 1:
        return extras[0]
    return {"allOf": [written, *extras]} if "allOf" in written else {**written, "allOf": extras}


def _write_ref(writer: GrammarWriter, node: Node, keyword: str, value: str) -> None:
    name = value.rpartition("/")[2]
    if name in writer.leeway.empty_definitions:
        node.extras.append(False)
    else:
        node.written[keyword] = writer.reference(name)


def _write_all_of(writer: GrammarWriter, node: Node, keyword: str, value: list[Schema]) -> None:
    is_limited = node.is_limited
    around = _around_parts(writer, node, sum(map(_is_conditional, value)))
    parts: list[Schema] = []
    if writer.any_order and len(value) > _MAX_UNORDERED_PARTS:
        value = value[:_MAX_UNORDERED_PARTS]
        writer.is_exact = False
    limited = [isinstance(part, dict) and writer.is_limited(part) for part in value]
    num_limited = sum(limited)
    for part, is_part_limited in zip(value, limited, strict=True):
        others = is_limited or num_limited > is_part_limited
        written = writer.subschema(part, node.depth, around, may_be_open=others)
        if written is True:
            continue
        # What only a condition declares comes last, as it does where the condition is left out.
        (node.extras if _is_conditional(part) else parts).append(written)
    if parts:
        node.written[keyword] = parts


def _around_parts(writer: GrammarWriter, node: Node, num_conditions: int) -> Around:
    nesting = node.around.nesting + 1
    if num_conditions == 0:
        return Around(nesting)
    if num_conditions > _MAX_CONDITIONS:
        return Around(nesting + _MAX_EXPANDED_NESTING)
    return Around(nesting, node.around.names | evaluation(node.source, writer.normal.definitions).names.keys())


def _is_conditional(schema: Schema) -> bool:
    return isinstance(schema, dict) and not _CONDITIONAL.isdisjoint(schema) and "properties" not in schema


def _write_any_of(writer: GrammarWriter, node: Node, keyword: str, value: list[Schema]) -> None:
    around = Around(node.around.nesting + 1)
    options = [writer.subschema(part, node.depth, around, may_be_open=node.is_limited) for part in value]
    if True not in options:
        node.written[keyword] = options


_WRITERS: dict[str, Callable[[GrammarWriter, Node, str, Any], None]] = {
    **VALUE_KEYWORDS,
    **OBJECT_KEYWORDS,
    "$ref": _write_ref,
    "allOf": _write_all_of,
    "anyOf": _write_any_of,
}
