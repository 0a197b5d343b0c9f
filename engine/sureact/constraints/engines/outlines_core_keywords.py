"""What outlines_core 0.2 does not enforce, keyword by keyword."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from sureact.constraints.engines.refusal import REMEDY, Fault, constraining, first_beside, types_of, values_fit
from sureact.constraints.schema.keywords import map_subschemas
from sureact.constraints.schema.pointer import child_pointer
from sureact.errors import UnsupportedSchemaError

if TYPE_CHECKING:
    from sureact.constraints.schema.keywords import Schema

_RULING = ("properties", "allOf", "anyOf", "enum", "const", "$ref")
"""Keywords that are read alone, in the order in which the first of them wins."""

_BESIDE = {
    # Undeclared properties are never written, whatever is said of them.
    "properties": frozenset({"type", "required", "additionalProperties"}),
    "enum": frozenset({"type"}),
    "const": frozenset({"type"}),
}

_TYPE_OF = {
    **dict.fromkeys(("minLength", "maxLength", "format"), "string"),
    **dict.fromkeys(("items", "minItems", "maxItems"), "array"),
    "additionalProperties": "object",
}

_EXACT_FORMATS = frozenset({"uuid"})


def outlines_core_fault(schema: dict[str, Any]) -> Fault | None:
    """Find what outlines_core 0.2 ignores or gets wrong in one subschema."""
    keywords = constraining(schema)
    if not keywords:
        return Fault("type", "it breaks the regex of the whole", is_missing=True)
    for keyword in keywords:
        if keyword not in _RULING and keyword not in _TYPE_OF and keyword not in ("type", "required"):
            return Fault(keyword, "it is ignored or wrong")
    ruling = next((keyword for keyword in _RULING if keyword in schema), None)
    if ruling is not None:
        return first_beside(schema, ruling, allowed=_BESIDE.get(ruling, frozenset())) or _ruling_fault(schema, ruling)
    named = types_of(schema)
    for keyword in keywords:
        if keyword != "type" and named != frozenset([_TYPE_OF.get(keyword)]):
            return Fault(keyword, f"it is enforced beside no type but {_TYPE_OF.get(keyword, 'object')!r}")
    if "format" in schema and (schema["format"] not in _EXACT_FORMATS or {"minLength", "maxLength"} & schema.keys()):
        return Fault("format", "it lets invalid texts pass")
    return None


def _ruling_fault(schema: dict[str, Any], ruling: str) -> Fault | None:
    match ruling:
        case "properties":
            return _object_fault(schema)
        case "allOf" if len(schema["allOf"]) > 1:
            return Fault("allOf", "the branches are written one after the other")
        case "enum" | "const" if not values_fit(schema):
            return Fault("type", f"beside {ruling!r} it is ignored")
        case "enum" | "const" if _has_object(schema[ruling]):
            return Fault(ruling, "the keys of an object in it are not escaped")
        case _:
            return None


def _object_fault(schema: dict[str, Any]) -> Fault | None:
    declared = schema["properties"]
    if types_of(schema) - {"object"}:
        return Fault("type", "beside 'properties' it is ignored")
    if not set(schema.get("required", ())) <= declared.keys():
        return Fault("required", "it names a property that is not declared")
    if any(json.dumps(name, ensure_ascii=False) != f'"{name}"' for name in declared):
        return Fault("properties", "a name in it would have to be escaped, and is not")
    return None


def _has_object(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_object, cast("list[Any]", value)))
    return isinstance(value, dict)


def refuse_references(schema: dict[str, Any]) -> None:
    """Refuse references that outlines_core reads wrongly, and cycles, which it cuts off."""
    definitions = schema.get("$defs", {})
    for name in definitions:
        if name in _reachable(name, definitions):
            place = child_pointer("", "$defs", name)
            _refuse_reference(f"#/$defs/{name}", place, "what refers to itself stops at a depth of three")

    def check(child: Schema, pointer: str) -> None:
        if isinstance(child, bool):
            return
        reference = child.get("$ref")
        if reference is not None and reference.removeprefix("#/$defs/") not in definitions:
            place = child_pointer(pointer, "$ref")
            _refuse_reference(reference, place, "it is read only as '#/$defs/' and a name without escapes")
        map_subschemas(child, lambda inner, path: (check(inner, child_pointer(pointer, *path)), inner)[1])

    check(schema, "")


def _reachable(name: str, definitions: dict[str, Schema]) -> set[str]:
    """Return the definitions that one refers to, through others too."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        text = json.dumps(definitions[waiting.pop()])
        named = {other for other in definitions if json.dumps(f"#/$defs/{other}") in text} - found
        found |= named
        waiting += named
    return found


def _refuse_reference(reference: str, place: str, why: str) -> None:
    raise UnsupportedSchemaError(
        f"The reference {reference!r} at {place} cannot be enforced by outlines_core: {why}. {REMEDY}",
        keyword="$ref",
        pointer=place,
    )


def refuse_open_end(schema: dict[str, Any]) -> None:
    """Refuse a bare number: outlines_core 0.2.14 drops a one-byte token after a place where the text may end."""
    if types_of(schema) & {"number", "integer"} and not {"enum", "const"} & schema.keys():
        raise UnsupportedSchemaError(
            "'type' at /type cannot be enforced by outlines_core: it cannot write every number that stands alone. "
            f"{REMEDY}",
            keyword="type",
            pointer="/type",
        )
