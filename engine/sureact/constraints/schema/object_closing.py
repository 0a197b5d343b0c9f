"""Closing objects: a schema that declares properties and is silent on extras gets `additionalProperties: false`.

What applies to one object in place (`allOf`, a `$ref` with siblings, a union beside properties) is closed as a whole:
closed one by one, the parts would forbid each other's properties.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sureact.constraints.schema.keywords import IDENTIFIERS, Schema, map_subschemas
from sureact.constraints.schema.pointer import resolve_local_ref

_COMBINATORS = ("allOf", "anyOf", "oneOf")
"""Keywords whose subschemas apply to the same object."""


@dataclass
class _Declared:
    """What an object schema, with all that applies to it in place, says about its keys."""

    names: dict[str, bool] = field(default_factory=dict[str, bool])
    patterns: dict[str, bool] = field(default_factory=dict[str, bool])
    has_properties: bool = False
    speaks_of_extras: bool = False

    @property
    def says_anything(self) -> bool:
        return self.has_properties or self.speaks_of_extras or bool(self.patterns)


def close_objects(root: Schema) -> Schema:
    """Return `root` with every object closed that declares `properties` and says nothing about other ones."""
    return _Closing(root).closed(root, frozenset())


class _Closing:
    """One pass over a schema. `seen` holds the references that were written out on the way down."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def closed(self, schema: Schema, seen: frozenset[str]) -> Schema:
        """Close an object as a whole, and all below it."""
        if isinstance(schema, bool):
            return schema
        # A reference that contains itself cannot be written out again; its definition is closed on its own.
        if self._is_composed(schema) and not self._refers_to(schema, seen):
            return self._closed_whole(schema, seen)
        closed = map_subschemas(schema, lambda child, _: self.closed(child, seen))
        if "properties" in schema:
            closed.setdefault("additionalProperties", False)
        return closed

    def _is_composed(self, schema: dict[str, Any]) -> bool:
        """Whether at least two of the parts that apply in place say something about keys."""
        alone = ("anyOf", "oneOf", "$ref")
        parts: list[Schema] = [{key: value for key, value in schema.items() if key not in (*alone, "allOf")}]
        parts += [*schema.get("allOf", ()), *({key: schema[key]} for key in alone if key in schema)]
        return sum(self._declared(part).says_anything for part in parts) > 1

    def _refers_to(self, schema: Schema, refs: frozenset[str]) -> bool:
        if isinstance(schema, bool):
            return False
        parts = (part for keyword in _COMBINATORS for part in schema.get(keyword, ()))
        return schema.get("$ref") in refs or any(self._refers_to(part, refs) for part in parts)

    def _closed_whole(self, schema: dict[str, Any], seen: frozenset[str]) -> Schema:
        declared = self._declared(schema)
        whole = self._opened(schema, seen)
        if isinstance(whole, bool) or not declared.has_properties or declared.speaks_of_extras:
            return whole
        # The whole names every property that a part declares; the parts go on to say what each must be.
        whole["properties"] = {**declared.names, **whole.get("properties", {})}
        if declared.patterns:
            whole["patternProperties"] = {**declared.patterns, **whole.get("patternProperties", {})}
        whole["additionalProperties"] = False
        return whole

    def _declared(self, schema: Schema) -> _Declared:
        declared = _Declared()
        self._collect(schema, declared, frozenset())
        return declared

    def _collect(self, schema: Schema, declared: _Declared, seen: frozenset[str]) -> None:
        if isinstance(schema, bool):
            return
        declared.has_properties |= "properties" in schema
        declared.speaks_of_extras |= "additionalProperties" in schema
        for keyword, value in schema.items():
            if keyword == "properties":
                declared.names.update(dict.fromkeys(value, True))
            elif keyword == "patternProperties":
                declared.patterns.update(dict.fromkeys(value, True))
            elif keyword in _COMBINATORS:
                for part in value:
                    self._collect(part, declared, seen)
            elif keyword == "$ref" and value not in seen:
                self._collect(self._target(value), declared, seen | {value})

    def _opened(self, schema: Schema, seen: frozenset[str]) -> Schema:
        """Copy an in-place part: open itself, references in place written out, objects below it closed."""
        if isinstance(schema, bool):
            return schema
        ref = schema.get("$ref")
        target = True if ref is None or ref in seen else self._target(ref)
        if target is not True:
            seen |= {str(ref)}

        def child(subschema: Schema, path: tuple[str, ...]) -> Schema:
            return self._opened(subschema, seen) if path[0] in _COMBINATORS else self.closed(subschema, seen)

        opened = map_subschemas(schema, child)
        if target is not True:
            del opened["$ref"]
            opened["allOf"] = [self._opened(_without_names(target), seen), *opened.get("allOf", ())]
        return opened

    def _target(self, ref: str) -> Schema:
        """Return what `ref` points to; True, which declares nothing, when that is no place in the schema."""
        try:
            return resolve_local_ref(self._root, ref)
        except LookupError:
            return True


def _without_names(schema: Schema) -> Schema:
    """Drop what identifies a schema or is there to be referred to: a copy must not claim it too."""
    if isinstance(schema, bool):
        return schema
    return {key: value for key, value in schema.items() if key not in IDENTIFIERS | {"$defs", "definitions"}}
