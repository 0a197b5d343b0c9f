"""Closing objects: a schema that declares properties and is silent on extras gets `additionalProperties: false`.

What applies to one object in place (`allOf`, a `$ref` with siblings, a union beside properties) is closed as a whole:
closed one by one, the parts would forbid each other's properties.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sureact.constraints.schema.keywords import Schema, map_subschemas
from sureact.constraints.schema.normal_form import NormalSchema
from sureact.errors import ConstraintCompileError

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLES = ("then", "else")
_IN_PLACE = frozenset({*_LISTS, *_SINGLES, "dependentSchemas"})
"""Keywords whose subschemas say what the same object must be."""
_QUESTIONS = frozenset({"not", "if", "contains", "propertyNames"})
"""Keywords whose subschemas only ask what a value is: closing them would change the answer."""
_MAX_WRITTEN_OUT = 5_000
"""References that lead to the same schemas on many ways would be written out once for each way."""


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


def close_objects(schema: NormalSchema) -> NormalSchema:
    """Return `schema` with every object closed that declares `properties` and says nothing about other ones."""
    closing = _Closing(schema.definitions)
    definitions = {name: closing.closed(part, frozenset()) for name, part in schema.definitions.items()}
    return NormalSchema(closing.closed(schema.root, frozenset()), definitions)


class _Closing:
    """One pass over a schema. `seen` holds the references that were written out on the way down."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        self._num_written_out = 0

    def closed(self, schema: Schema, seen: frozenset[str]) -> Schema:
        """Close an object as a whole, and all below it."""
        if isinstance(schema, bool):
            return schema
        # A reference that contains itself cannot be written out again; its definition is closed on its own.
        if self._is_composed(schema) and not self._refers_to(schema, seen):
            return self._closed_whole(schema, seen)
        closed = map_subschemas(schema, lambda child, path: self._closed_below(child, path, seen))
        if "properties" in schema and "unevaluatedProperties" not in schema:
            closed.setdefault("additionalProperties", False)
        return closed

    def _closed_below(self, child: Schema, path: tuple[str, ...], seen: frozenset[str]) -> Schema:
        return child if path[0] in _QUESTIONS else self.closed(child, seen)

    def _is_composed(self, schema: dict[str, Any]) -> bool:
        """Whether at least two of the parts that apply in place say something about keys."""
        alone = [key for key in (*_IN_PLACE - {"allOf"}, "$ref") if key in schema]
        parts: list[Schema] = [{key: value for key, value in schema.items() if key not in (*alone, "allOf")}]
        parts += [*schema.get("allOf", ()), *({key: schema[key]} for key in alone)]
        return sum(self._declared(part).says_anything for part in parts) > 1

    def _refers_to(self, schema: Schema, refs: frozenset[str]) -> bool:
        if isinstance(schema, bool):
            return False
        return schema.get("$ref") in refs or any(self._refers_to(part, refs) for part in _in_place(schema))

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
        self._collect(schema, declared, set())
        return declared

    def _collect(self, schema: Schema, declared: _Declared, seen: set[str]) -> None:
        """Add what a schema says; what a reference leads to is `seen` once, however many lead there."""
        if isinstance(schema, bool):
            return
        declared.has_properties |= "properties" in schema
        declared.speaks_of_extras |= "additionalProperties" in schema or "unevaluatedProperties" in schema
        # In the order of the keywords, which is that of the keys in the text.
        for keyword, value in schema.items():
            if keyword == "properties":
                declared.names.update(dict.fromkeys(value, True))
            elif keyword == "patternProperties":
                declared.patterns.update(dict.fromkeys(value, True))
            elif keyword == "$ref" and value not in seen:
                seen.add(value)
                self._collect(self._target(value), declared, seen)
            for part in _in_place({keyword: value}):
                self._collect(part, declared, seen)

    def _opened(self, schema: Schema, seen: frozenset[str]) -> Schema:
        """Copy an in-place part: open itself, references in place written out, objects below it closed."""
        if isinstance(schema, bool):
            return schema
        ref = schema.get("$ref")
        is_written_out = ref is not None and ref not in seen
        if is_written_out:
            seen |= {str(ref)}
            self._count_written_out()

        def child(subschema: Schema, path: tuple[str, ...]) -> Schema:
            is_in_place = path[0] in _IN_PLACE
            return self._opened(subschema, seen) if is_in_place else self._closed_below(subschema, path, seen)

        opened = map_subschemas(schema, child)
        if is_written_out:
            target = self._opened(self._target(opened.pop("$ref")), seen)
            opened["allOf"] = [target, *opened.get("allOf", ())]
        return opened

    def _count_written_out(self) -> None:
        self._num_written_out += 1
        if self._num_written_out > _MAX_WRITTEN_OUT:
            raise ConstraintCompileError(
                f"Objects cannot be closed as wholes that take more than {_MAX_WRITTEN_OUT:,} references to tell. Say "
                "`additionalProperties` where objects are declared, or leave them open."
            )

    def _target(self, ref: str) -> Schema:
        return self._definitions[ref.removeprefix("#/$defs/")]


def _in_place(schema: dict[str, Any]) -> Iterator[Schema]:
    """Yield what says more about the same object, but for references."""
    for keyword in _LISTS:
        yield from schema.get(keyword, ())
    for keyword in _SINGLES:
        if keyword in schema:
            yield schema[keyword]
    yield from schema.get("dependentSchemas", {}).values()
