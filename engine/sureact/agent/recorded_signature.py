"""A signature as a trace holds it, and made again of that: types as the text that a signature is written in."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from sureact.agent.signature import TYPE_NAMES, Signature
from sureact.agent.type_notation import type_notation
from sureact.errors import SignatureError, TraceError

if TYPE_CHECKING:
    from sureact.agent.json_object import ObjectField

_GENERICS = (list, dict, tuple)
_LITERALS = (str, int, bool, types.NoneType)


def signature_record(signature: Signature) -> dict[str, Any]:
    """Return instructions, types and descriptions of a signature."""
    return {
        "instructions": signature.instructions,
        "input_types": _notations(signature.inputs),
        "output_types": _notations(signature.outputs),
        "input_annotations": {name: type_text(field.annotation) for name, field in signature.inputs.items()},
        "output_annotations": {name: type_text(field.annotation) for name, field in signature.outputs.items()},
        "descriptions": described(signature),
    }


def described(signature: Signature) -> dict[str, str]:
    """Return the descriptions of the fields that have one."""
    return {name: field.desc for name, field in signature.fields.items() if field.desc}


def recorded_signature(record: Mapping[str, Any]) -> Signature:
    """Return the signature that was recorded.

    Raises:
        TraceError: a field has a type that a text cannot name, such as a model of pydantic.
        SignatureError: the same, in a trace that only tells how types were shown to the model.
    """
    text = " -> ".join(", ".join(_fields(record, side)) for side in ("input", "output"))
    return Signature(text, record["instructions"]).with_descriptions(record.get("descriptions", {}))


def type_text(annotation: Any) -> str | None:
    """Return a type as a signature text names it; None if it cannot."""
    try:
        text = _text(annotation)
        Signature(f"-> field: {text}")
    except (LookupError, SignatureError):
        return None
    return text


def _text(annotation: Any) -> str:
    """Write a type.

    Raises:
        LookupError: no text names it.
    """
    if annotation is None or annotation is types.NoneType:
        return "None"
    if annotation is Ellipsis:
        return "..."
    for name, known in TYPE_NAMES.items():
        if annotation is known:
            return name
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal and all(type(part) in _LITERALS for part in parts):
        return f"Literal[{', '.join(map(repr, parts))}]"
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(_text, parts))
    if origin in _GENERICS:
        return f"{origin.__name__}[{', '.join(map(_text, parts)) or '()'}]"
    raise LookupError(annotation)


def _fields(record: Mapping[str, Any], side: str) -> list[str]:
    # A trace of before tells the types as the model read them, most of which name themselves.
    texts: Mapping[str, str | None] = record.get(f"{side}_annotations") or record[f"{side}_types"]
    for name, text in texts.items():
        if text is None:
            shown = record[f"{side}_types"][name]
            raise TraceError(
                f"The trace does not hold the Python type of the field {name!r}, which the model read as {shown}. Use "
                "an agent with the signature of that time, from Python."
            )
    return [f"{name}: {text}" for name, text in texts.items()]


def _notations(fields: Mapping[str, ObjectField]) -> dict[str, str]:
    from sureact.agent.json_object import JsonObject

    schema = JsonObject("Fields", fields).schema
    return {name: type_notation(field, schema) for name, field in schema.get("properties", {}).items()}
