"""Finding the smallest part of a schema that nothing satisfies, and the keywords there that contradict each other."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from sureact.constraints.schema.grammar_schema import grammar_schemas
from sureact.constraints.schema.leeway import compile_error, proves_unsatisfiable
from sureact.constraints.schema.normal_form import NormalSchema
from sureact.constraints.schema.pointer import MISSING, child_pointer, value_at
from sureact.constraints.schema.unsatisfiability import unsatisfiable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sureact.constraints.schema.keywords import Schema

_MAX_TRIES = 200
_MAX_SECONDS = 1.0
"""For all tries together. After it, a part that is larger than need be is named."""


class Contradiction(NamedTuple):
    """Why nothing satisfies a schema."""

    keywords: tuple[str, ...]
    """They cannot all hold; none where the schema is `false`."""
    pointer: str
    """Where they stand, in the schema as it was given."""


def find_contradiction(normal: NormalSchema, source: Schema) -> Contradiction:
    """Return what contradicts itself.

    Args:
        normal: a schema that nothing satisfies.
        source: what it is the normal form of.
    """
    search = _Search(normal, source)
    schema, place = search.smallest_part(normal.root, "")
    if isinstance(schema, bool):
        return Contradiction((), place)
    keywords = search.needed_keywords(schema)
    written = value_at(source, place)
    own = [keyword for keyword in keywords if not isinstance(written, dict) or keyword in written] or keywords
    # That it is of a type is rarely the mistake; but between 1 and 2 there is a number, and no integer.
    apart = [keyword for keyword in own if keyword != "type" or schema["type"] == "integer"]
    return Contradiction(tuple(apart if len(apart) > 1 else own), place)


def place_in_source(place: str, source: Schema) -> str | None:
    """Return the pointer into `source` for one into its normal form; None where it has nothing there."""
    older = "/definitions" + place.removeprefix("/$defs") if place.startswith("/$defs/") else place
    return next((pointer for pointer in (place, older) if value_at(source, pointer) is not MISSING), None)


class _Search:
    """Tries parts of one schema, each by itself."""

    def __init__(self, normal: NormalSchema, source: Schema) -> None:
        self._definitions = normal.definitions
        self._source = source
        self._num_tries = 0
        self._deadline = time.perf_counter() + _MAX_SECONDS

    def smallest_part(self, schema: Schema, place: str) -> tuple[Schema, str]:
        """Go down to the parts that every value needs, as long as one of them is unsatisfiable by itself."""
        seen: set[int] = set()
        while isinstance(schema, dict) and id(schema) not in seen:
            seen.add(id(schema))
            for inner_place, inner in self._needed_parts(schema, place):
                found = place_in_source(inner_place, self._source)
                if found is not None and self._is_unsatisfiable(inner):
                    schema, place = inner, found
                    break
        return schema, place

    def needed_keywords(self, schema: dict[str, Any]) -> list[str]:
        """Return keywords that nothing satisfies together, with none that could be left out."""
        needed = schema
        for keyword in schema:
            fewer = {name: value for name, value in needed.items() if name != keyword}
            if self._is_unsatisfiable(fewer):
                needed = fewer
        return list(needed)

    def _needed_parts(self, schema: dict[str, Any], place: str) -> Iterator[tuple[str, Schema]]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            yield f"/$defs/{name}", self._definitions[name]
        for index, part in enumerate(schema.get("allOf", ())):
            yield child_pointer(place, "allOf", str(index)), part
        if schema.get("type") == "object":
            properties = schema.get("properties", {})
            for name in schema.get("required", ()):
                if name in properties:
                    yield child_pointer(place, "properties", name), properties[name]
        if schema.get("type") == "array":
            prefix, least = schema.get("prefixItems", []), schema.get("minItems", 0)
            for index, item in enumerate(prefix[:least]):
                yield child_pointer(place, "prefixItems", str(index)), item
            if least > len(prefix) and "items" in schema:
                yield child_pointer(place, "items"), schema["items"]
            if "contains" in schema and schema.get("minContains", 1):
                yield child_pointer(place, "contains"), schema["contains"]

    def _is_unsatisfiable(self, schema: Schema) -> bool:
        """Whether that is certain."""
        if isinstance(schema, bool):
            return not schema
        if self._num_tries >= _MAX_TRIES or time.perf_counter() > self._deadline:
            return False
        self._num_tries += 1
        part = NormalSchema(schema, self._definitions)
        return unsatisfiable(part) is not None or _is_refused(part)


def _is_refused(part: NormalSchema) -> bool:
    """Whether a grammar shows that nothing satisfies a schema."""
    candidates = grammar_schemas(part, key_order="schema", ensure_ascii=False)
    candidate = next(candidates, None)
    while candidate is not None and (reason := compile_error(candidate.schema)):
        if proves_unsatisfiable(reason):
            return True
        try:
            candidate = candidates.send(reason)
        except StopIteration:
            return False
    return False
