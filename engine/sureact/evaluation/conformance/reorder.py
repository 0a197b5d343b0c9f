"""The keys of a value in the order in which a schema declares them, which is the order a grammar writes them in."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from sureact.constraints.schema.judge import json_validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from jsonschema.protocols import Validator

    from sureact.constraints.schema.keywords import Schema

_CONDITIONS = frozenset({"if", "dependentSchemas", "dependencies"})

_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, re.error)
"""What a malformed schema raises somewhere inside: it orders nothing, and whoever compiles it says why."""


def key_reordering(schema: Schema, resources: Mapping[str, Schema] | None = None) -> Callable[[Any], Any]:
    """Return a function that rewrites a value with the keys of each of its objects in the order of `schema`.

    Declared properties come in the order of the schema's text, in which `allOf`, `anyOf`, `oneOf`, `$ref` and the like
    stand where they are written, and conditions at the end; then what only `required` names; then all others as they
    were. Of alternatives, the first that the value satisfies counts; where it satisfies none, each of them does. A
    value that `const` or `enum` lists has the order that it has there.

    Args:
        schema: a schema of any draft; what cannot be resolved in it orders nothing.
        resources: other schemas that references may point to, by URI.
    """
    from jsonschema.validators import Draft202012Validator, validator_for
    from jsonschema_specifications import REGISTRY
    from referencing import Resource
    from referencing.jsonschema import DRAFT202012, specification_with

    if isinstance(schema, bool):
        return lambda value: value
    names_draft = isinstance(schema.get("$schema"), str)
    draft = cast("Any", validator_for(schema if names_draft else {}, default=Draft202012Validator))
    dialect = draft.ID_OF(draft.META_SCHEMA)
    specification: Any = specification_with(dialect, default=DRAFT202012)
    # A registry that fetches nothing: references outside `resources` stay unresolved.
    registry: Any = REGISTRY.with_resources(
        (uri, Resource.from_contents(contents, default_specification=specification))
        for uri, contents in (resources or {}).items()
    )
    resolver = registry.resolver_with_root(specification.create_resource(schema))
    judge_class = cast("Any", type(json_validator({"$schema": dialect}, check_formats=False)))
    reordering = _Reordering(specification, judge_class(schema, registry=registry))
    root = _Place(schema, resolver)
    return lambda value: reordering.reordered(value, [root])


@dataclass(frozen=True, slots=True)
class _Place:
    """A subschema, and what resolves the references in it."""

    schema: dict[str, Any]
    resolver: Any

    def of(self, contents: Any) -> list[_Place]:
        """Return the place of a resolved reference's contents; none for a boolean."""
        return [_Place(cast("dict[str, Any]", contents), self.resolver)] if isinstance(contents, dict) else []


@dataclass(frozen=True, slots=True)
class _Reordering:
    specification: Any
    judge: Validator

    def reordered(self, value: Any, places: list[_Place]) -> Any:
        """Return `value` in the order of the schemas that apply to it."""
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            keywords = self._keywords(value, places)
            names = [name for name in _declared(keywords) if name in members]
            return {
                name: self.reordered(members[name], self._member_places(name, keywords))
                for name in dict.fromkeys(chain(names, members))
            }
        if isinstance(value, list):
            items = cast("list[Any]", value)
            keywords = self._keywords(value, places)
            return [self.reordered(item, self._item_places(i, keywords)) for i, item in enumerate(items)]
        return value

    def _keywords(self, value: Any, places: Iterable[_Place]) -> list[tuple[_Place, str]]:
        """Return every keyword that applies to `value`, in the order of the text, through what refers or combines.

        Conditions come last, wherever they are written: to a grammar they are alternatives of all that is sure.
        """
        seen: set[int] = set()
        waiting = deque(places)
        found: list[tuple[_Place, str]] = []
        try:
            while waiting:
                found += self._flat(value, waiting.popleft(), seen, waiting)
        except _UNREADABLE:
            return []
        return found

    def _flat(
        self, value: Any, place: _Place, seen: set[int], conditional: deque[_Place]
    ) -> Iterator[tuple[_Place, str]]:
        if id(place.schema) in seen:
            return
        seen.add(id(place.schema))
        for keyword in place.schema:
            yield place, keyword
            inside = self._in_place(value, place, keyword)
            if keyword in _CONDITIONS:
                conditional += inside
            else:
                for inner in inside:
                    yield from self._flat(value, inner, seen, conditional)

    def _in_place(self, value: Any, place: _Place, keyword: str) -> list[_Place]:
        """Return the subschemas of a keyword that apply to the same value."""
        content = place.schema[keyword]
        match keyword:
            case "$ref" | "$dynamicRef" | "$recursiveRef":
                return self._referenced(place, content)
            case "allOf":
                return self._inside(place, content)
            case "const" | "enum":
                listed = [content] if keyword == "const" else content
                return [_Place(_shape(model), place.resolver) for model in listed if model == value][:1]
            case "anyOf" | "oneOf":
                branches = self._inside(place, content)
                return next(([branch] for branch in branches if self._holds(branch, value)), branches)
            case "if":
                conditions = self._inside(place, [content])
                if content is True or any(self._holds(condition, value) for condition in conditions):
                    return [*conditions, *self._inside(place, [place.schema.get("then")])]
                return self._inside(place, [place.schema.get("else")])
            case "dependentSchemas" | "dependencies" if isinstance(value, dict):
                return self._inside(place, [content[name] for name in content if name in value])
            case _:
                return []

    def _referenced(self, place: _Place, reference: str) -> list[_Place]:
        from referencing.exceptions import Unresolvable

        try:
            resolved = place.resolver.lookup(reference)
        except Unresolvable:
            return []
        return _Place({}, resolved.resolver).of(resolved.contents)

    def _inside(self, place: _Place, schemas: Iterable[Any]) -> list[_Place]:
        """Return the places of subschemas, of which booleans say nothing about order."""
        return [
            _Place(
                cast("dict[str, Any]", schema),
                place.resolver.in_subresource(self.specification.create_resource(schema)),
            )
            for schema in schemas
            if isinstance(schema, dict)
        ]

    def _holds(self, place: _Place, value: Any) -> bool:
        from referencing.exceptions import Unresolvable

        try:
            return self.judge.evolve(schema=place.schema).is_valid(value)
        except (Unresolvable, *_UNREADABLE):
            return False

    def _member_places(self, name: str, keywords: list[tuple[_Place, str]]) -> list[_Place]:
        found: list[_Place] = []
        for place, keyword in keywords:
            content = place.schema[keyword]
            if keyword == "properties" and name in content:
                found += self._inside(place, [content[name]])
            elif keyword == "patternProperties":
                found += self._inside(place, [content[pattern] for pattern in content if _matches(pattern, name)])
            elif keyword == "additionalProperties" and name not in place.schema.get("properties", ()):
                found += self._inside(place, [content])
        if not found:
            found = [inner for place, keyword in keywords for inner in self._unevaluated(place, keyword)]
        return found

    def _unevaluated(self, place: _Place, keyword: str) -> list[_Place]:
        return self._inside(place, [place.schema[keyword]] if keyword == "unevaluatedProperties" else [])

    def _item_places(self, index: int, keywords: list[tuple[_Place, str]]) -> list[_Place]:
        found: list[_Place] = []
        for place, keyword in keywords:
            content = place.schema[keyword]
            num_first = len(_first_items(place.schema))
            if keyword in ("prefixItems", "items") and isinstance(content, list):
                found += self._inside(place, cast("list[Any]", content)[index : index + 1])
            elif keyword in ("items", "additionalItems", "unevaluatedItems") and index >= num_first:
                found += self._inside(place, [content])
        return found


def _declared(keywords: list[tuple[_Place, str]]) -> list[str]:
    """Return the names of declared properties, and after them those that are only required."""
    declared = [place.schema[keyword] for place, keyword in keywords if keyword == "properties"]
    required = [place.schema[keyword] for place, keyword in keywords if keyword == "required"]
    return [name for names in declared + required for name in names]


def _shape(model: Any) -> dict[str, Any]:
    """Return a schema that has the members and items of a value where the value has them."""
    if isinstance(model, dict):
        return {"properties": {name: _shape(member) for name, member in cast("dict[str, Any]", model).items()}}
    return {"prefixItems": list(map(_shape, cast("list[Any]", model)))} if isinstance(model, list) else {}


def _first_items(schema: dict[str, Any]) -> list[Any]:
    """Return the subschemas of an array's first items: before draft 2020-12, those of a list in `items`."""
    items = schema.get("prefixItems", schema.get("items"))
    return cast("list[Any]", items) if isinstance(items, list) else []


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False
