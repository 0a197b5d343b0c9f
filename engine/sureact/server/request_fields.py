"""The fields of a request's body, as tables: what is honored, what may only say what is done anyway, what is refused.

Both the refusals and the table in `docs/server.md` come from them, so neither can say what the other does not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from sureact.server.api_error import ApiError

Read = Callable[[Any, str], Any]
"""From a value and the name of its field to what the server goes on with; raises `ApiError`."""

MISSING: Any = object()
"""The default of a field that must be given."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a body. `null` counts as not given."""

    name: str
    kind: Literal["honored", "neutral", "refused"]
    allowed: str
    """What may be given, in words."""
    read: Read
    default: Any = None
    default_text: str = ""
    """The default in words, where its value does not say it."""
    note: str = ""
    schema: str = ""
    """Name of its schema in the OpenAPI document, where it is not the field's own."""


def honored(
    name: str,
    allowed: str,
    read: Read,
    default: Any = None,
    *,
    default_text: str = "",
    note: str = "",
    schema: str = "",
) -> Field:
    """Describe a field that does what it says."""
    return Field(name, "honored", allowed, read, default, default_text, note, schema)


def neutral(name: str, *values: Any, note: str = "") -> Field:
    """Describe a field of others' that is not honored: only the values that change nothing are accepted."""

    def read(value: Any, path: str) -> Any:
        if not any(type(value) is type(known) and value == known for known in values):
            raise ApiError(
                f"{path} is {shown(value)}, which this server does not honor. Leave it out"
                + (f", or give {allowed}." if values else "."),
                param=path,
                code="unsupported_value",
            )
        return value

    allowed = " or ".join(f"`{_json(value)}`" for value in values) or "`null`"
    return Field(name, "neutral", allowed, read, note=note)


def ignored(name: str, allowed: str, read: Read, *, note: str, schema: str = "") -> Field:
    """Describe a field that changes nothing: any value that `read` accepts."""
    return Field(name, "neutral", allowed, read, note=note, schema=schema)


def refused(name: str, instead: str) -> Field:
    """Describe a field that is refused, with what to use instead."""

    def read(value: Any, path: str) -> Any:
        raise ApiError(f"{path} is not honored by this server. {instead}", param=path, code="unsupported_parameter")

    return Field(name, "refused", "`null`", read, note=instead)


def read_fields(body: Mapping[str, Any], fields: Sequence[Field], *, path: str = "") -> dict[str, Any]:
    """Return the value of every field of an object, defaults included.

    Args:
        body: the object.
        fields: all that it may hold.
        path: of the object in the body, for messages, such as `stream_options`.

    Raises:
        ApiError: a field is unknown, missing, or has a value that is not allowed.
    """
    by_name = {field.name: field for field in fields}
    for name in body:
        if name not in by_name:
            raise _unknown(name, by_name, path)
    values: dict[str, Any] = {}
    for field in fields:
        given, place = body.get(field.name), f"{path}.{field.name}" if path else field.name
        if given is not None:
            values[field.name] = field.read(given, place)
        elif field.default is MISSING:
            raise ApiError(f"{place} is missing. Give {field.allowed}.", param=place, code="missing_parameter")
        else:
            values[field.name] = field.default
    return values


def markdown_table(fields: Sequence[Field]) -> str:
    """Return fields as the table that stands in the documentation."""
    lines = ["| field | | values | default | |", "|---|---|---|---|---|"]
    lines += [
        f"| `{field.name}` | {field.kind} | {field.allowed} | {_default(field)} | {field.note} |"
        for field in sorted(fields, key=lambda field: (_ORDER.index(field.kind), field.name))
    ]
    return "\n".join(lines)


def shown(value: Any) -> str:
    """Return a value as it stands in a message, shortened."""
    text = _json(value)
    return text if len(text) <= 80 else text[:77] + "..."


_ORDER = ("honored", "neutral", "refused")


def _default(field: Field) -> str:
    if field.default_text or field.kind != "honored":
        return field.default_text
    return "required" if field.default is MISSING else f"`{_json(field.default)}`"


def _unknown(name: str, known: Mapping[str, Field], path: str) -> ApiError:
    place = f"{path}.{name}" if path else name
    near = get_close_matches(name[:64], known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"The fields are {', '.join(sorted(known))}."
    if len(known) > 12 and not near:
        hint = "The server's documentation lists the fields."
    return ApiError(
        f"{shown(place)} is not a field of this request. {hint}", param=place[:80], code="unknown_parameter"
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)
