"""What references point to: documents, the parts of them that have an address of their own, and anchors.

An address is a URI without fragment; a place says where something lies to a reader of an error: a JSON pointer into the
user's schema, or the address of another document before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote, urljoin

from sureact.constraints.schema.dialect import LATEST, Dialect, dialect_of
from sureact.constraints.schema.keyword_shapes import shortened
from sureact.constraints.schema.keywords import MAX_DEPTH, SCHEMA_LISTS, SCHEMA_MAPS, SINGLE_SCHEMAS, Schema
from sureact.constraints.schema.pointer import child_pointer


class UnresolvedReferenceError(LookupError):
    """A reference points to nothing that is known; the message says what to do."""


@dataclass(eq=False, slots=True)
class Resource:
    """A document, or a part of one that declares an address, and what is anchored in it."""

    identifier: str
    """The address as it is declared, which may be relative to that of `outer`."""
    outer: Resource | None
    contents: Schema
    dialect: Dialect
    place: str
    anchors: dict[str, Target] = field(default_factory=dict[str, "Target"])
    dynamic_anchors: dict[str, Target] = field(default_factory=dict[str, "Target"])
    _address: str | None = None

    @property
    def address(self) -> str:
        """The whole address; made when it is asked for, as some files declare one in every schema and use none."""
        if self._address is None:
            self._address = _joined(self.outer.address if self.outer else "", self.identifier)
        return self._address


@dataclass(frozen=True, slots=True)
class Target:
    """A schema that a reference points to."""

    schema: Schema
    resource: Resource
    """The innermost one around `schema`: what its own references are relative to."""
    place: str


class Library:
    """All that references can reach: a schema, the documents that were given, and the official metaschemas.

    Documents are searched for addresses and anchors only when a reference asks for one: most schemas have none.
    """

    def __init__(self, schema: Schema, documents: Mapping[str, Schema]) -> None:
        self.documents = {address.removesuffix("#"): document for address, document in documents.items()}
        self._by_address: dict[str, Resource] = {}
        self._by_contents: dict[int, Resource] = {}
        self._searched: set[int] = set()
        self._roots: list[Resource] = []
        self.root = self._add_document("", schema, dialect_of(schema, LATEST, self.documents), "")

    def enter(self, schema: Schema, outer: Resource, around: Dialect, place: str) -> tuple[Resource, Dialect]:
        """Return the innermost resource that holds what is in `schema`, and the dialect of that.

        Args:
            schema: a part of `outer`.
            outer: the innermost resource around `schema`; returned if `schema` declares no address.
            around: the dialect around `schema`. It says which keyword declares the address, even where `schema` goes
                on in another dialect.
            place: where `schema` lies.
        """
        dialect = dialect_of(schema, around, self.documents, place)
        identifier = around.identifier(schema)
        if identifier is None:
            return outer, dialect
        known = self._by_contents.get(id(schema))
        if known is None:
            known = self._by_contents[id(schema)] = Resource(identifier, outer, schema, dialect, place)
        return known, dialect

    def resolve(self, reference: str, base: Resource, dialect: Dialect) -> Target:
        """Return what `reference` points to when it stands in `base`.

        Args:
            reference: a URI, absolute or relative to `base`, with or without fragment.
            base: the innermost resource around the reference.
            dialect: that of the schema that refers; a document that names none is read in it.

        Raises:
            UnresolvedReferenceError: nothing is there.
        """
        address, _, fragment = reference.partition("#")
        resource = base if not address else self._resource(_joined(base.address, address), reference, dialect)
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._anchored(resource, fragment, reference)
        target = self._pointed(resource, fragment) if fragment else Target(resource.contents, resource, resource.place)
        if target is None:
            raise UnresolvedReferenceError(
                f"points to nothing: {shortened(reference)}. Correct it, or put a schema there"
            )
        return target

    def dynamic_anchors(self, resource: Resource) -> dict[str, Target]:
        """Return what `$dynamicAnchor` names in `resource`."""
        self._search(resource)
        return resource.dynamic_anchors

    def _resource(self, address: str, reference: str, dialect: Dialect) -> Resource:
        for make_known in (
            self._search_all,
            lambda: self._load_given([address], dialect),
            lambda: self._load_official(address),
            lambda: self._load_given(self.documents, dialect),
        ):
            if address in self._by_address:
                break
            make_known()
        if address in self._by_address:
            return self._by_address[address]
        raise UnresolvedReferenceError(
            f"points outside the schema, to {shortened(reference)}. Copy that into '$defs', or give it in `resources`."
        )

    def _load_given(self, addresses: Iterable[str], dialect: Dialect) -> None:
        for address in addresses:
            if address in self.documents and address not in self._by_address:
                document, place = self.documents[address], f"{address}#"
                self._add_document(address, document, dialect_of(document, dialect, self.documents, place), place)
        self._search_all()

    def _load_official(self, address: str) -> None:
        from jsonschema_specifications import REGISTRY

        for known in (address, f"{address}#"):
            if known in REGISTRY:
                document = cast("Schema", REGISTRY.contents(known))
                self._add_document(address, document, dialect_of(document), f"{address}#")

    def _add_document(self, address: str, document: Schema, dialect: Dialect, place: str) -> Resource:
        resource = Resource(address, None, document, dialect, place)
        self._by_address.setdefault(address, resource)
        identifier = dialect.identifier(document)
        if identifier is not None:
            resource.identifier = _joined(address, identifier)
        self._by_contents[id(document)] = resource
        self._roots.append(resource)
        return resource

    def _search_all(self) -> None:
        for root in self._roots:
            self._search(root)

    def _search(self, resource: Resource) -> None:
        """Find the addresses and anchors in `resource`, and in the resources inside it."""
        if id(resource) in self._searched:
            return
        pending: list[tuple[Schema, Resource, Dialect, str, int]] = [
            (resource.contents, resource, resource.dialect, resource.place, 0)
        ]
        while pending:
            schema, outer, around, place, depth = pending.pop()
            inner, dialect = self.enter(schema, outer, around, place)
            if id(inner) not in self._searched:
                self._searched.add(id(inner))
                self._by_address.setdefault(inner.address, inner)
            if isinstance(schema, dict) and depth < MAX_DEPTH:
                _note_anchors(schema, inner, dialect, place)
                for path, child in _parts(schema):
                    pending.append((child, inner, dialect, child_pointer(place, *path), depth + 1))

    def _anchored(self, resource: Resource, name: str, reference: str) -> Target:
        self._search(resource)
        if name not in resource.anchors:
            raise UnresolvedReferenceError(f"names an anchor that does not exist: {shortened(reference)}.")
        return resource.anchors[name]

    def _pointed(self, resource: Resource, pointer: str) -> Target | None:
        """Follow a JSON pointer; an address declared on the way is what the references behind it are relative to."""
        here: Any = resource.contents
        place, dialect = resource.place, resource.dialect
        kind = "schema"
        for token in pointer.split("/")[1:]:
            step = token.replace("~1", "/").replace("~0", "~")
            kind = _kind_below(kind, step, here)
            if isinstance(here, dict) and step in here:
                here = cast("dict[str, Any]", here)[step]
            elif isinstance(here, list) and step.isdecimal() and int(step) < len(cast("list[Any]", here)):
                here = cast("list[Any]", here)[int(step)]
            else:
                return None
            place = child_pointer(place, step)
            if kind == "schema" and isinstance(here, dict):
                resource, dialect = self.enter(cast("Schema", here), resource, dialect, place)
        return Target(here, resource, place)


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference).partition("#")[0] or base
    except ValueError as error:
        raise UnresolvedReferenceError(f"is no URI: {shortened(reference)} ({error}).") from error


def _kind_below(kind: str, step: str, here: object) -> str:
    """Return what lies one step below a `schema`, a `container` of schemas, or something `else`."""
    if kind == "container":
        return "schema"
    if kind == "else" or not isinstance(here, dict):
        return "else"
    if step in SCHEMA_MAPS or step in SCHEMA_LISTS:
        return "container"
    if step == "items" and isinstance(cast("dict[str, object]", here).get("items"), list):
        return "container"
    return "schema" if step in SINGLE_SCHEMAS else "else"


def _note_anchors(schema: dict[str, Any], resource: Resource, dialect: Dialect, place: str) -> None:
    target = Target(schema, resource, place)
    if dialect.draft <= 7:
        name = schema.get(dialect.id_keyword)
        if isinstance(name, str) and name.startswith("#") and "$ref" not in schema:
            resource.anchors.setdefault(name[1:], target)
        return
    name, dynamic_name = schema.get("$anchor"), schema.get("$dynamicAnchor")
    if isinstance(name, str):
        resource.anchors.setdefault(name, target)
    if dialect.draft == 2019 and schema is resource.contents and schema.get("$recursiveAnchor") is True:
        resource.dynamic_anchors[""] = target
    if isinstance(dynamic_name, str) and dialect.draft >= 2020:
        resource.anchors.setdefault(dynamic_name, target)
        resource.dynamic_anchors.setdefault(dynamic_name, target)


def _parts(schema: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """List the direct subschemas of `schema` with the steps to them."""
    for keyword, value in schema.items():
        if keyword in SCHEMA_MAPS and isinstance(value, dict):
            children = (((keyword, name), child) for name, child in cast("dict[str, Any]", value).items())
        elif isinstance(value, list) and (keyword in SCHEMA_LISTS or keyword == "items"):
            children = (((keyword, str(index)), child) for index, child in enumerate(cast("list[Any]", value)))
        elif keyword in SINGLE_SCHEMAS:
            children = (((keyword,), value),)
        else:
            continue
        yield from ((path, child) for path, child in children if isinstance(child, dict | bool))
