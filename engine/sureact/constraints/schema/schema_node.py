"""One schema on its way into normal form: where it lies, what it is read under, and what was read so far."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

from sureact.constraints.schema.dialect import Dialect
from sureact.constraints.schema.keyword_readers import Reader, read_unknown
from sureact.constraints.schema.keyword_shapes import MalformedKeywordError, shortened
from sureact.constraints.schema.keywords import MAX_DEPTH, Schema
from sureact.constraints.schema.pointer import child_pointer
from sureact.constraints.schema.references import Resource, UnresolvedReferenceError
from sureact.errors import ConstraintCompileError, UnsupportedSchemaError

if TYPE_CHECKING:
    from sureact.constraints.schema.normal_form import Normalizer

Scope: TypeAlias = frozenset[tuple[str, Resource]]
"""The dynamic anchors of the resources that were entered before the innermost one, each bound to the first that has it.

A `$dynamicRef` can tell no more of its dynamic scope than these bindings, and there are finitely many.
"""

_MAX_SHOWN_POINTER = 200
_NULL: Schema = {"type": "null"}


@dataclass(eq=False, slots=True)
class Context:
    """What the meaning of a schema depends on beside itself, and what was found out under it."""

    resource: Resource
    """The innermost resource around."""
    dialect: Dialect
    scope: Scope
    readers: dict[str, Reader | None]
    """What to do about each keyword; None for annotations."""
    done: dict[int, Schema] = field(default_factory=dict[int, Schema])
    """Normal forms by the identity of their schemas."""
    references: dict[str, str] = field(default_factory=dict[str, str])
    """`$ref` of the normal form, by that of the schema."""


class SchemaNode:
    """One schema on its way into normal form."""

    __slots__ = ("_parent", "_steps", "context", "depth", "normalizer", "result", "source")

    def __init__(
        self,
        source: dict[str, Any],
        context: Context,
        normalizer: Normalizer,
        parent: SchemaNode | str,
        steps: tuple[str | int, ...],
    ) -> None:
        self.source = source
        self.context = context
        self.normalizer = normalizer
        self.result: dict[str, Any] = {}
        self._parent = parent
        self._steps = steps
        self.depth: int = 0 if isinstance(parent, str) else parent.depth + 1

    def child(self, source: Any, *steps: str | int) -> Schema:
        """Return the normal form of a subschema.

        All is done in this one frame, as schemas may be nested deeply.

        Args:
            source: the subschema.
            steps: the path to it from this schema.
        """
        if source is True or source is False:
            return source
        context = self.context
        done = context.done.get(id(source))
        if done is not None:
            return done
        node = SchemaNode(source, context, self.normalizer, self, steps)
        keyword = "$id"
        try:
            keywords = node.start()
            readers = node.context.readers
            for keyword, value in keywords.items():
                read = readers.get(keyword, read_unknown)
                if read is not None:
                    read(node, keyword, value)
        except MalformedKeywordError as error:
            raise ConstraintCompileError(f"Not a valid JSON schema at {node.pointer(keyword)}: {error}.") from error
        except UnresolvedReferenceError as error:
            place = node.pointer(keyword)
            raise UnsupportedSchemaError(
                f"{json.dumps(keyword)} at {place} {error}", keyword=keyword, pointer=place
            ) from error
        normal = node.result
        if source.get("nullable") is True:
            normal = {"anyOf": [normal, _NULL]}
        context.done[id(source)] = normal
        return normal

    def start(self) -> dict[str, Any]:
        """Check the schema as a whole, and return the keywords of it that count."""
        source: Any = self.source
        if not isinstance(source, dict):
            self._refuse(f"{shortened(source)} is not a schema; write an object, true or false")
        if self.depth > MAX_DEPTH:
            self._refuse(f"it is nested more than {MAX_DEPTH} levels deep; move inner schemas into '$defs'")
        dialect = self.context.dialect
        if dialect.id_keyword in source or "$schema" in source:
            dialect = self._enter_resource()
        if "$ref" in source and dialect.ignores_ref_siblings:
            return {"$ref": source["$ref"]}
        return cast("dict[str, Any]", source)

    def conjoin(self, *conjuncts: Schema) -> None:
        """Add schemas that must hold beside this one."""
        self.result["allOf"] = [*self.result.get("allOf", ()), *conjuncts]

    def pointer(self, *steps: str | int) -> str:
        """Return where a step from this schema leads, in the user's schema."""
        path: list[str | int] = [*steps]
        node: SchemaNode | str = self
        while isinstance(node, SchemaNode):
            path[:0] = node._steps
            node = node._parent
        return child_pointer(node, *map(str, path))

    def _enter_resource(self) -> Dialect:
        """Read what follows in the dialect and relative to the address that the schema declares."""
        outer = self.context
        library = self.normalizer.library
        resource, dialect = library.enter(self.source, outer.resource, outer.dialect, self.pointer())
        self.context = self.normalizer.entered(outer, resource, dialect)
        return dialect

    def _refuse(self, why: str) -> NoReturn:
        place = self.pointer()
        if len(place) > _MAX_SHOWN_POINTER:
            place = f"{place[:_MAX_SHOWN_POINTER]}..."
        raise ConstraintCompileError(f"Not a valid JSON schema at {place or 'the root'}: {why}.")
