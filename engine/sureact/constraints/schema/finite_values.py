"""The values of a schema that has only a few, so that each can be looked at."""

from __future__ import annotations

from math import ceil, floor
from typing import TYPE_CHECKING, Any

from sureact.constraints.schema.disjointness import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sureact.constraints.schema.keywords import Schema

_MAX_COUNTED = 200
"""Values of a range or a union that are listed; those of `enum` are listed already."""


def finite_values(schema: Schema, definitions: Mapping[str, Schema]) -> list[Any] | None:
    """Return values that all which `schema` allows are among, each once; None where there are too many to list.

    Args:
        schema: in normal form.
        definitions: what references point to.
    """
    return _Listing(definitions).values(schema)


class _Listing:
    """Lists the values of each schema once, however often it is referred to."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        self._known: dict[int, list[Any] | None] = {}

    def values(self, schema: Schema) -> list[Any] | None:
        if isinstance(schema, bool):
            return None if schema else []
        if id(schema) not in self._known:
            lists = (self._of_reference(schema), self._of_union(schema, "anyOf"), self._of_union(schema, "oneOf"))
            found = [values for values in (_of_enum(schema), _of_types(schema), *lists) if values is not None]
            self._known[id(schema)] = min(found, key=len, default=None)
        return self._known[id(schema)]

    def _of_reference(self, schema: dict[str, Any]) -> list[Any] | None:
        return self.values(self._definitions[schema["$ref"].rpartition("/")[2]]) if "$ref" in schema else None

    def _of_union(self, schema: dict[str, Any], keyword: str) -> list[Any] | None:
        listed: list[Any] = []
        for branch in schema.get(keyword, ()):
            values = self.values(branch)
            if values is None or len(listed) + len(values) > _MAX_COUNTED:
                return None
            listed += values
        return _distinct(listed) if keyword in schema else None


def _of_enum(schema: dict[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return _distinct(schema["enum"]) if "enum" in schema else None


def _of_types(schema: dict[str, Any]) -> list[Any] | None:
    if "type" not in schema:
        return None
    listed: list[Any] = []
    for name in [schema["type"]] if isinstance(schema["type"], str) else schema["type"]:
        values = {"null": [None], "boolean": [False, True], "integer": _integers(schema)}.get(name)
        if values is None:
            return None
        listed += values
    return listed


def _integers(schema: dict[str, Any]) -> list[int] | None:
    """Return the integers between two bounds."""
    least = [ceil(schema["minimum"])] if "minimum" in schema else []
    least += [floor(schema["exclusiveMinimum"]) + 1] if "exclusiveMinimum" in schema else []
    most = [floor(schema["maximum"])] if "maximum" in schema else []
    most += [ceil(schema["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in schema else []
    if not least or not most or min(most) - max(least) >= _MAX_COUNTED:
        return None
    return list(range(max(least), min(most) + 1))


def _distinct(values: list[Any]) -> list[Any]:
    """Return each value once, by what JSON takes for equal."""
    return list({canonical(value): value for value in values}.values())
