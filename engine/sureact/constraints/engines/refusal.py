"""What an engine would let pass unenforced is refused before it sees the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sureact.constraints.schema.keywords import Schema, is_annotation, map_subschemas
from sureact.constraints.schema.pointer import child_pointer
from sureact.errors import ConfigError, UnsupportedSchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sureact.constraints.prepared_schema import JsonSpelling

REMEDY = "Use the engine 'llguidance'."
"""What can be done about any refusal of another engine."""
_NAMES = frozenset({"$defs", "definitions", "$schema", "$id", "id", "$anchor"})
"""Keywords that any engine may skip: they name schemas."""


class Fault(NamedTuple):
    """A keyword that an engine does not enforce where it stands."""

    keyword: str
    why: str
    is_missing: bool = False
    """Whether the fault is that the keyword does not stand there."""


def refuse_spelling(engine: str, spelling: JsonSpelling) -> None:
    """Raise for a spelling that neither xgrammar nor outlines_core can be held to.

    Raises:
        ConfigError: characters outside ASCII must be escapes.
    """
    if spelling.ascii_only:
        raise ConfigError(f"ensure_ascii is True; {engine} cannot be kept from writing other characters as they are.")


def refuse_unenforced(engine: str, schema: Schema, find_fault: Callable[[dict[str, Any]], Fault | None]) -> None:
    """Raise for the outermost keyword that the engine does not enforce.

    Args:
        engine: its name, for the message.
        schema: the schema as the engine will get it.
        find_fault: looks at one subschema without its children.

    Raises:
        UnsupportedSchemaError: there is one.
    """
    _refuse(engine, schema, "", find_fault)


def _refuse(engine: str, schema: Schema, pointer: str, find_fault: Callable[[dict[str, Any]], Fault | None]) -> None:
    if isinstance(schema, bool):
        return
    fault = find_fault(schema)
    if fault is not None:
        place = pointer if fault.is_missing else child_pointer(pointer, fault.keyword)
        what = f"The schema without {fault.keyword!r}" if fault.is_missing else repr(fault.keyword)
        raise UnsupportedSchemaError(
            f"{what} at {place or 'the root'} cannot be enforced by {engine}: {fault.why}. {REMEDY}",
            keyword=fault.keyword,
            pointer=place,
        )

    def descend(child: Schema, path: tuple[str, ...]) -> Schema:
        _refuse(engine, child, child_pointer(pointer, *path), find_fault)
        return child

    map_subschemas(schema, descend)


def constraining(schema: dict[str, Any]) -> list[str]:
    """Return the keywords of a schema that are neither annotations nor names."""
    return [keyword for keyword in schema if keyword not in _NAMES and not is_annotation(keyword)]


def first_beside(schema: dict[str, Any], ruling: str, *, allowed: frozenset[str] = frozenset()) -> Fault | None:
    """Return the fault of the first keyword that stands beside one that an engine reads alone."""
    others = [keyword for keyword in constraining(schema) if keyword != ruling and keyword not in allowed]
    return Fault(others[0], f"beside {ruling!r} it is ignored") if others else None


def types_of(schema: dict[str, Any]) -> frozenset[str]:
    """Return the names in `type`; none where it is missing."""
    named = schema.get("type", [])
    return frozenset([named] if isinstance(named, str) else named)


def values_fit(schema: dict[str, Any]) -> bool:
    """Whether every value of `enum` or `const` is of the `type` beside it."""
    from jsonschema import Draft202012Validator

    values = schema["enum"] if "enum" in schema else [schema["const"]]
    judge = Draft202012Validator({"type": schema["type"]} if "type" in schema else {})
    return all(judge.is_valid(value) for value in values)
