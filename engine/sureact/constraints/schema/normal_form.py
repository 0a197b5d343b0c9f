"""The normal form of a JSON schema: what it means, in few keywords of draft 2020-12 and references that always hold.

Every later step (closing, grammar, guard) reads this form only. What a keyword becomes is in `keyword_readers`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sureact.constraints.schema.dialect import Dialect
from sureact.constraints.schema.in_place_cycles import find_in_place_cycle, find_long_chain
from sureact.constraints.schema.keyword_readers import readers_of
from sureact.constraints.schema.keywords import ASSERTED_FORMATS, MAX_DEPTH, Schema
from sureact.constraints.schema.references import Library, Resource, Target
from sureact.constraints.schema.schema_node import Context, SchemaNode, Scope
from sureact.errors import ConstraintCompileError

_UNFIT_FOR_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")

_EMPTY_SCOPE: Scope = frozenset()


@dataclass(frozen=True, slots=True)
class NormalSchema:
    """A JSON schema of any draft, said in draft 2020-12 without annotations, addresses and anchors.

    Its dicts may be shared and are never changed. Every `$ref` is `#/$defs/` and a key of `definitions`, and no chain
    of references comes back to itself without consuming a value.
    """

    root: Schema
    definitions: dict[str, Schema]
    """What references point to; the names need no escaping."""

    @property
    def document(self) -> Schema:
        """The whole as one schema of draft 2020-12."""
        return self.root if isinstance(self.root, bool) else {**self.root, "$defs": self.definitions}


def normalize(
    schema: Schema,
    *,
    resources: Mapping[str, Schema] | None = None,
    formats: Literal["assert", "annotate"] = "assert",
) -> NormalSchema:
    """Return the normal form of `schema`.

    Args:
        schema: JSON data; its draft is that of `$schema`, else 2020-12. It must not be changed afterwards: the normal
            form shares its constants.
        resources: the documents that references may point to beside the schema itself and the official metaschemas,
            by URI.
        formats: whether the formats of `ASSERTED_FORMATS` are asserted or, like all others, annotations.

    Raises:
        ConstraintCompileError: malformed, nested too deeply, or a reference that comes back to itself.
        UnsupportedSchemaError: a draft that is not served, or a reference to something that is not known.
    """
    library = Library(schema, resources or {})
    asserted = ASSERTED_FORMATS if formats == "assert" else frozenset[str]()
    try:
        return Normalizer(library, asserted).normal_schema()
    except RecursionError as error:  # the caller itself is deep in calls
        raise ConstraintCompileError("The schema is nested too deeply for what is left of Python's stack.") from error


class Normalizer:
    """Normalizes one schema and, one after another, all that it refers to."""

    def __init__(self, library: Library, asserted_formats: frozenset[str]) -> None:
        self.library = library
        self.asserted_formats = asserted_formats
        self.warned: set[str] = set()
        """The keywords that a warning was given about."""
        self._contexts: dict[tuple[Resource, Dialect, Scope], Context] = {}
        self._names: dict[tuple[Context, int], str] = {}
        self._taken: set[str] = set()
        self._pending: list[tuple[str, Target, Context]] = []

    def normal_schema(self) -> NormalSchema:
        """Return the normal form of the library's root."""
        document = self.library.root
        context = self.context(document, document.dialect, _EMPTY_SCOPE)
        root = self._read(Target(document.contents, document, document.place), context)
        definitions: dict[str, Schema] = {}
        places: dict[str, str] = {}
        while self._pending:
            name, target, context = self._pending.pop()
            definitions[name] = self._read(target, context)
            places[name] = target.place
        if (name := find_in_place_cycle(definitions)) is not None:
            raise ConstraintCompileError(
                f"The schema at {places[name] or 'the root'} never terminates: its references come back to it without "
                "going down into a property or an item. Remove one of them."
            )
        if len(definitions) > MAX_DEPTH and (name := find_long_chain(definitions, MAX_DEPTH)) is not None:
            raise ConstraintCompileError(
                f"The schema at {places[name] or 'the root'} leads through more than {MAX_DEPTH} references, each to a "
                "schema that holds the next, to what it asks of a value. Refer to the last ones directly."
            )
        return NormalSchema(root, definitions)

    def _read(self, target: Target, context: Context) -> Schema:
        return SchemaNode({}, context, self, target.place, ()).child(target.schema)

    def context(self, resource: Resource, dialect: Dialect, scope: Scope) -> Context:
        """Return the one context with these parts."""
        key = (resource, dialect, scope)
        context = self._contexts.get(key)
        if context is None:
            context = self._contexts[key] = Context(resource, dialect, scope, readers_of(dialect))
        return context

    def entered(self, context: Context, resource: Resource, dialect: Dialect) -> Context:
        """Return the context of a part of `resource` that is reached from `context`."""
        if resource is context.resource:
            return context if dialect == context.dialect else self.context(resource, dialect, context.scope)
        return self.context(resource, dialect, self.scope_with(context.scope, context.resource))

    def scope_with(self, scope: Scope, resource: Resource) -> Scope:
        """Bind the dynamic anchors of `resource` that are not bound further out."""
        if resource.dialect.draft < 2019:
            return scope
        bound = {name for name, _ in scope}
        names = [*self.library.dynamic_anchors(resource)]
        return scope | {(name, resource) for name in names if name not in bound}

    def reference(self, context: Context, target: Target) -> str:
        """Return the `$ref` of the normal form to `target`, which is referred to from `context`."""
        same_resource = target.resource is context.resource
        dialect = context.dialect if same_resource else target.resource.dialect
        inner = self.entered(context, target.resource, dialect)
        key = (inner, id(target.schema))
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self._new_name(target)
            self._pending.append((name, target, inner))
        return f"#/$defs/{name}"

    def _new_name(self, target: Target) -> str:
        last_step = target.place.rpartition("/")[2].rpartition("#")[2]
        wanted = _UNFIT_FOR_A_NAME.sub("_", last_step) or "root"
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}-{number}"
        self._taken.add(name)
        return name
