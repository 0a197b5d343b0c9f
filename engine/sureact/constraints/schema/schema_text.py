"""What a user gives as a schema, as JSON text: no larger than what is read, compiled and judged within seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from sureact.constraints.schema.judge import parse_json
from sureact.errors import ConfigError

MAX_CHARACTERS = 2_000_000
"""Of names and strings; about four times as many as the largest public schema has."""
MAX_VALUES = 100_000
"""Strings, numbers, constants, lists and objects; about four times as many as the largest public schema has."""


class _Size(NamedTuple):
    """How large the JSON text of a value would be."""

    num_values: int
    num_characters: int


def schema_text(schema: object) -> str:
    """Return the JSON text of a schema that is given as a mapping, a boolean or text.

    Raises:
        ConfigError: none of these, not JSON, or too large.
    """
    if isinstance(schema, str):
        try:
            schema = parse_json(schema)
        except ValueError as error:
            raise ConfigError(f"The schema text is not JSON: {error}.") from error
    if not isinstance(schema, bool | Mapping):
        raise ConfigError(f"The schema is {type(schema).__name__}; it must be a mapping, a boolean, or JSON text.")
    return _json_text("The schema", schema if isinstance(schema, bool) else dict(cast("Mapping[str, Any]", schema)))


def resources_text(resources: Mapping[str, Any] | None) -> str:
    """Return the JSON text of the documents that references may point to.

    Raises:
        ConfigError: not a mapping, not JSON, or too large.
    """
    if resources is not None and not isinstance(resources, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"resources is {resources!r}; it must map URIs to schemas.")
    return _json_text("resources", dict(resources or {}))


def _json_text(what: str, value: object) -> str:
    try:
        # Nearly every schema is small and has no part in two places, which is soon seen.
        num_values = _num_values_of_tree(value)
        if num_values is not None and num_values <= MAX_VALUES:
            text = json.dumps(value, allow_nan=False)
            if len(text) <= MAX_CHARACTERS:
                return text
        size = _size_of(value, {})
        if size.num_values <= MAX_VALUES and size.num_characters <= MAX_CHARACTERS:
            return json.dumps(value, allow_nan=False)
    except RecursionError as error:
        raise ConfigError(f"{what} is nested deeper than Python reads, or contains itself.") from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what} is not JSON: {error}.") from error
    raise ConfigError(
        f"{what} has {size.num_values:,} values and {size.num_characters:,} characters; at most {MAX_VALUES:,} and "
        f"{MAX_CHARACTERS:,} are served. Put what comes again and again into '$defs'."
    )


def _num_values_of_tree(value: object) -> int | None:
    """Return the values inside of a value and itself; None when an object or a list stands in several places."""
    num_values, seen, pending = 1, set[int](), [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict | list | tuple):
            if id(part) in seen or num_values > MAX_VALUES:
                return None
            seen.add(id(part))
            num_values += len(part)
            pending += cast("dict[object, object]", part).values() if isinstance(part, dict) else part
    return num_values


def _size_of(value: object, known: dict[int, _Size]) -> _Size:
    """Measure a value without writing it: what stands in several places counts in each, and is measured once."""
    if isinstance(value, str):
        return _Size(1, len(value))
    if not isinstance(value, dict | list | tuple):
        return _Size(1, 0)
    size = known.get(id(value))
    if size is None:
        is_object = isinstance(value, dict)
        names = [name for name in cast("dict[object, object]", value) if isinstance(name, str)] if is_object else []
        parts = cast("dict[object, object]", value).values() if is_object else cast("list[object]", value)
        sizes = [_size_of(part, known) for part in parts]
        num_characters = sum(map(len, names)) + sum(size.num_characters for size in sizes)
        size = known[id(value)] = _Size(1 + sum(size.num_values for size in sizes), num_characters)
    return size
