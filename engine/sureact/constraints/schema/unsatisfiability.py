"""Finding that no value can be valid, where a grammar would not show it.

A grammar that is looser than its schema compiles though nothing can satisfy the schema, and whatever it leads to is
vetoed in the end. What is found here is certain; what is not found may still be unsatisfiable.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sureact.constraints.schema.disjointness import are_disjoint, canonical
from sureact.constraints.schema.finite_values import finite_values
from sureact.constraints.schema.implication import is_implied, is_ruled_out
from sureact.constraints.schema.pointer import child_pointer
from sureact.constraints.schema.reduction import recursive_names
from sureact.constraints.schema.value_faults import fault_of_names, fault_of_text, fault_of_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sureact.constraints.schema.keywords import Schema
    from sureact.constraints.schema.normal_form import NormalSchema
    from sureact.constraints.schema.value_faults import Fault

_MAX_DEPTH = 24
_CONTRADICTIONS = {
    "array": (("minItems", "maxItems"),),
    "object": (("minProperties", "maxProperties"),),
    "string": (("minLength", "maxLength"),),
    "number": (("minimum", "maximum"),),
    "integer": (("minimum", "maximum"),),
}


def unsatisfiable(normal: NormalSchema) -> Fault | None:
    """Return why no value is valid under `normal`, and where in the normal form that is; None where none is known."""
    return _Search(normal.definitions).fault(normal.root, "", 0)


class _Search:
    """One search through a schema; what was found for a subschema is kept."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        self._endless = _endless_names(definitions) if definitions else frozenset[str]()
        self._found: dict[int, Fault | None] = {}

    def fault(self, schema: Schema, place: str, depth: int) -> Fault | None:
        """Return why nothing satisfies a schema, as far as one of its parts says so."""
        if schema is True or depth > _MAX_DEPTH:
            return None
        if schema is False:
            return "false allows no value", place
        if id(schema) not in self._found:
            self._found[id(schema)] = None  # until more is known: it may contain itself
            self._found[id(schema)] = (
                self._fault_in_place(schema, place, depth)
                or _fault_of_not(schema, place)
                or _fault_of_one_of(schema, place)
                or fault_of_values(schema, place)
                or self._fault_of_type(schema, place, depth)
            )
        return self._found[id(schema)]

    def _fault_in_place(self, schema: dict[str, Any], place: str, depth: int) -> Fault | None:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name in self._endless:
                return "every value would contain another one of its kind, without end", f"/$defs/{name}"
            if (fault := self.fault(self._definitions[name], f"/$defs/{name}", depth + 1)) is not None:
                return fault
        for index, part in enumerate(schema.get("allOf", ())):
            if (fault := self.fault(part, child_pointer(place, "allOf", str(index)), depth + 1)) is not None:
                return fault
        for keyword in ("anyOf", "oneOf"):
            branches = child_pointer(place, keyword)
            if keyword in schema and all(
                is_ruled_out(branch, schema) or self.fault(branch, branches, depth + 1) for branch in schema[keyword]
            ):
                return f"no branch of {keyword} can hold", branches
        return None

    def _fault_of_type(self, schema: dict[str, Any], place: str, depth: int) -> Fault | None:
        """Find what contradicts itself for the one type that values may have."""
        only = schema.get("type")
        if not isinstance(only, str):
            return None
        for least, most in _CONTRADICTIONS.get(only, ()):
            if least in schema and most in schema and schema[least] > schema[most]:
                return f"{least} {schema[least]} is more than {most} {schema[most]}", child_pointer(place, least)
        if only == "array":
            return self._fault_of_array(schema, place, depth)
        if only == "string":
            return fault_of_text(schema, place)
        return self._fault_of_object(schema, place, depth) if only == "object" else None

    def _fault_of_array(self, schema: dict[str, Any], place: str, depth: int) -> Fault | None:
        num_contained = schema.get("minContains", 1) if "contains" in schema else 0
        least = max(schema.get("minItems", 0), num_contained)
        prefix: list[Schema] = schema.get("prefixItems", [])
        items: Schema = schema.get("items", True)
        if num_contained > schema.get("maxItems", num_contained):
            return f"contains asks for {num_contained} items, and there are fewer", child_pointer(place, "maxItems")
        if num_contained and all(
            are_disjoint(item, schema["contains"], self._definitions) for item in (*prefix, items)
        ):
            return "no item can be one that contains asks for", child_pointer(place, "contains")
        for index, item in enumerate(prefix[:least]):
            if (fault := self.fault(item, child_pointer(place, "prefixItems", str(index)), depth + 1)) is not None:
                return fault
        if least <= len(prefix):
            return None
        if (fault := self.fault(items, child_pointer(place, "items"), depth + 1)) is not None:
            return fault
        values = finite_values(items, self._definitions) if "uniqueItems" in schema else None
        if values is not None and least > len(prefix) + len(values):
            why = f"minItems is {least}, and unique items are at most {len(prefix) + len(values)}"
            return why, child_pointer(place, "uniqueItems")
        return None

    def _fault_of_object(self, schema: dict[str, Any], place: str, depth: int) -> Fault | None:
        properties: dict[str, Schema] = schema.get("properties", {})
        required: list[str] = schema.get("required", [])
        is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        for name in required:
            if is_closed and name not in properties:
                return f"{name!r} is required, and no such property is allowed", child_pointer(place, "required")
            here = child_pointer(place, "properties", name)
            if (fault := self.fault(properties.get(name, True), here, depth + 1)) is not None:
                return fault
        num_required = len(set(required))
        if num_required > schema.get("maxProperties", num_required):
            return f"{num_required} properties are required, and fewer allowed", child_pointer(place, "maxProperties")
        if is_closed and schema.get("minProperties", 0) > len(properties):
            return f"only {len(properties)} properties are allowed", child_pointer(place, "minProperties")
        return fault_of_names(schema, place, self._definitions)


def _fault_of_not(schema: dict[str, Any], place: str) -> Fault | None:
    if "not" in schema and is_implied(schema["not"], schema):
        return "not forbids what the schema around it asks for", child_pointer(place, "not")
    return None


def _fault_of_one_of(schema: dict[str, Any], place: str) -> Fault | None:
    """Find two branches of `oneOf` that hold for whatever the rest of the schema allows, or an equal one to each."""
    branches: list[Schema] = schema.get("oneOf", [])
    here = child_pointer(place, "oneOf")
    implied = [index for index, branch in enumerate(branches) if is_implied(branch, schema)]
    if len(implied) > 1:
        why = (
            f"branches {implied[0]} and {implied[1]} of oneOf hold for whatever the schema around them allows, "
            "and only one of them may"
        )
        return why, here
    # Writing them out takes long, so the first is looked for before.
    if branches and branches.count(branches[0]) > 1 and min(Counter(map(canonical, branches)).values()) > 1:
        return "each branch of oneOf is there twice, and only one may hold", here
    return None


def _endless_names(definitions: Mapping[str, Schema]) -> frozenset[str]:
    """Return the definitions each value of which would have to contain another value of it, and so on."""
    endless = set(recursive_names(definitions))
    is_changed = bool(endless)
    while is_changed:
        ending = {name for name in endless if _can_end(definitions[name], endless)}
        endless -= ending
        is_changed = bool(ending)
    return frozenset(endless)


def _can_end(schema: Schema, endless: set[str]) -> bool:
    """Whether a value can do without one of the definitions that may be endless."""
    if isinstance(schema, bool):
        return True
    if schema.get("$ref", "").rpartition("/")[2] in endless:
        return False
    if not all(_can_end(part, endless) for part in schema.get("allOf", ())):
        return False
    if not all(
        any(_can_end(part, endless) for part in schema[union]) for union in ("anyOf", "oneOf") if union in schema
    ):
        return False
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return all(_can_end(properties.get(name, True), endless) for name in schema.get("required", ()))
    if schema.get("type") == "array":
        prefix, least = schema.get("prefixItems", []), schema.get("minItems", 0)
        needed = prefix[:least] if least <= len(prefix) else [*prefix, schema.get("items", True)]
        return all(_can_end(item, endless) for item in needed)
    return True
