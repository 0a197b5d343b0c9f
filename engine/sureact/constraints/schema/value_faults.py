"""Finding that no value, text or name can be valid, where the keywords beside each other list or describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sureact.constraints.schema.disjointness import canonical
from sureact.constraints.schema.finite_values import finite_values
from sureact.constraints.schema.pointer import child_pointer
from sureact.constraints.schema.text_tests import PatternReader, pattern_error, pattern_matches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sureact.constraints.schema.keywords import Schema

Fault = tuple[str, str]
"""Why, and where: a JSON pointer into the normal form."""


def fault_of_values(schema: dict[str, Any], place: str) -> Fault | None:
    """Return why none of the values that a schema lists is valid."""
    if not ("const" in schema or "enum" in schema):
        return None
    values = _listed(schema)
    if "const" in schema and "enum" in schema:
        values = _among(values, schema["enum"])
        if not values:
            return "const is no value of enum", child_pointer(place, "const")
    forbidden = schema.get("not")
    if isinstance(forbidden, dict) and len(forbidden) == 1 and ("const" in forbidden or "enum" in forbidden):
        values = [value for value in values if not _among([value], _listed(forbidden))]
        if not values:
            return "not forbids every listed value", child_pointer(place, "not")
    types = schema.get("type")
    names = [types] if isinstance(types, str) else types
    if names is None or any(_is_of_type(value, name) for value in values for name in names):
        return None
    return f"no listed value is of type {' or '.join(names)}", place


def fault_of_text(schema: dict[str, Any], place: str) -> Fault | None:
    """Return why no string is valid: a pattern that occurs in each is forbidden."""
    forbidden = schema.get("not")
    if not isinstance(forbidden, dict) or not {"pattern"} <= forbidden.keys() <= {"pattern", "type"}:
        return None
    pattern: str = forbidden["pattern"]
    if forbidden.get("type", "string") != "string" or pattern_error(pattern):
        return None
    if not PatternReader(pattern, sees_certainty=True).is_certain:
        return None
    return f"not forbids the pattern {pattern!r}, which occurs in every string", child_pointer(place, "not")


def fault_of_names(schema: dict[str, Any], place: str, definitions: Mapping[str, Schema]) -> Fault | None:
    """Return why an object cannot have the names that it needs, by what `propertyNames` says of them."""
    names: Schema = schema.get("propertyNames", True)
    here = child_pointer(place, "propertyNames")
    for name in schema.get("required", ()):
        if _is_refused(name, names):
            return f"{name!r} is required, and propertyNames does not allow it", here
    values = finite_values(names, definitions)
    if values is None:
        return None
    num_names = sum(isinstance(value, str) for value in values)
    least = schema.get("minProperties", 0)
    return (f"minProperties is {least}, and propertyNames allows {num_names}", here) if least > num_names else None


def _is_refused(name: str, names: Schema) -> bool:
    """Whether `propertyNames` does not allow a name, as far as its own keywords say so."""
    if isinstance(names, bool):
        return not names
    if not names.get("minLength", 0) <= len(name) <= names.get("maxLength", len(name)):
        return True
    if ("const" in names or "enum" in names) and not _among([name], _listed(names)):
        return True
    pattern = names.get("pattern")
    return pattern is not None and not pattern_error(pattern) and not pattern_matches(pattern, name)


def _listed(schema: dict[str, Any]) -> list[Any]:
    return [schema["const"]] if "const" in schema else schema["enum"]


def _among(values: list[Any], others: list[Any]) -> list[Any]:
    """Return those of the values that are equal to one of the others."""
    texts = set(map(canonical, others))
    return [value for value in values if canonical(value) in texts]


def _is_of_type(value: object, name: str) -> bool:
    match value:
        case None:
            return name == "null"
        case bool():
            return name == "boolean"
        case int():
            return name in ("integer", "number")
        case float():
            return name == "number" or (name == "integer" and value.is_integer())
        case str():
            return name == "string"
        case list():
            return name == "array"
        case _:
            return name == "object"
