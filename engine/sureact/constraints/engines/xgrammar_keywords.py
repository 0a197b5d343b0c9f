"""What xgrammar 0.2 does not enforce, keyword by keyword."""

from __future__ import annotations

import re
from typing import Any

from sureact.constraints.engines.refusal import Fault, constraining, first_beside, types_of, values_fit

_RULING = ("$ref", "const", "enum", "anyOf", "allOf")
"""Keywords that are read alone, in this order: what stands beside them is dropped."""

_TYPE_OF = {
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), frozenset({"string"})),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), frozenset({"integer", "number"})),
    "multipleOf": frozenset({"integer"}),
    **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems"), frozenset({"array"})),
    **dict.fromkeys(
        ("properties", "required", "additionalProperties", "patternProperties", "propertyNames"), frozenset({"object"})
    ),
}
"""The types that a keyword is enforced for; it is ignored unless one of them is named beside it."""

_LOOKAROUND = re.compile(r"\(\?(?!:)")
"""Begins a group that is more than a group; it can also be a flag, which is refused all the same."""

_EXACT_FORMATS = frozenset({"uuid"})


def xgrammar_fault(schema: dict[str, Any]) -> Fault | None:
    """Find what xgrammar 0.2 ignores in one subschema."""
    for keyword in constraining(schema):
        if keyword not in _RULING and keyword not in _TYPE_OF and keyword != "type":
            return Fault(keyword, "it is ignored or only approximated")
    ruling = next((keyword for keyword in _RULING if keyword in schema), None)
    if ruling is not None:
        return _ruling_fault(schema, ruling)
    named = types_of(schema)
    for keyword in constraining(schema):
        if keyword != "type" and not named & _TYPE_OF[keyword]:
            return Fault(keyword, f"it needs the type {' or '.join(sorted(_TYPE_OF[keyword]))} beside it")
    return _string_fault(schema) or _number_fault(schema, named) or _object_fault(schema)


def _ruling_fault(schema: dict[str, Any], ruling: str) -> Fault | None:
    if ruling == "$ref" and not str(schema["$ref"]).startswith("#"):
        return Fault("$ref", "what it points to is outside the schema")
    if ruling == "allOf" and len(schema["allOf"]) > 1:
        return Fault("allOf", "several branches are taken for any JSON")
    if ruling in ("const", "enum") and values_fit(schema):
        return first_beside(schema, ruling, allowed=frozenset({"type"}))
    return first_beside(schema, ruling)


def _string_fault(schema: dict[str, Any]) -> Fault | None:
    if "format" in schema and schema["format"] not in _EXACT_FORMATS:
        return Fault("format", "it lets invalid texts pass")
    if _looks_around(schema.get("pattern", "")):
        return Fault("pattern", "what it asks of the text around a place is ignored")
    measured = {"minLength", "maxLength"} & schema.keys()
    if measured and {"pattern", "format"} & schema.keys():
        return Fault(min(measured), "beside 'pattern' or 'format' it is ignored")
    if {"pattern", "format"} <= schema.keys():
        return Fault("format", "beside 'pattern' it is ignored")
    return None


def _number_fault(schema: dict[str, Any], named: frozenset[str]) -> Fault | None:
    if "multipleOf" not in schema:
        return None
    if "number" in named or not isinstance(schema["multipleOf"], int):
        return Fault("multipleOf", "it holds for integers only")
    bounds = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} & schema.keys()
    return Fault("multipleOf", "beside a bound one of them is ignored") if bounds else None


def _object_fault(schema: dict[str, Any]) -> Fault | None:
    declared = schema.get("properties", {})
    if not set(schema.get("required", ())) <= declared.keys():
        return Fault("required", "it names a property that is not declared")
    if any(map(_looks_around, schema.get("patternProperties", ()))):
        return Fault("patternProperties", "what a pattern asks of the text around a place is ignored")
    if "patternProperties" in schema and (declared or len(schema["patternProperties"]) > 1):
        return Fault("patternProperties", "a key that two of them apply to gets one")
    if "patternProperties" in schema and schema.get("additionalProperties", True) not in (True, False, {}):
        return Fault("additionalProperties", "beside 'patternProperties' it is ignored")
    if "propertyNames" in schema and (declared or "patternProperties" in schema):
        return Fault("propertyNames", "beside declared properties it is ignored")
    return None


def _looks_around(pattern: str) -> bool:
    return _LOOKAROUND.search(pattern) is not None
