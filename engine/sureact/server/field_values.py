"""Reads the values of fields: type and range, with the field's name in what is said of a wrong one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from sureact.server.api_error import ApiError
from sureact.server.request_fields import Field, Read, honored, shown


def refuse(value: Any, path: str, allowed: str) -> NoReturn:
    """Refuse a value.

    Raises:
        ApiError: always.
    """
    raise ApiError(f"{path} is {shown(value)}; it must be {allowed}.", param=path, code="invalid_value")


def integer(name: str, default: int | None = None, *, least: int, most: int | None = None, **words: str) -> Field:
    """Describe a field that is a whole number of a range."""
    allowed = f"a whole number, {_range(least, most)}"

    def read(value: Any, path: str) -> int:
        if type(value) is not int or value < least or (most is not None and value > most):
            refuse(value, path, allowed)
        return value

    return honored(name, allowed, read, default, **words)


def number(
    name: str, default: float | None, *, least: float, most: float | None = None, is_open: bool = False, **words: str
) -> Field:
    """Describe a field that is a number of a range; `is_open` leaves the least value itself out."""
    allowed = f"a number, {_range(least, most, is_open=is_open)}"

    def read(value: Any, path: str) -> float:
        is_number = type(value) in (int, float) and math.isfinite(value)
        is_above = is_number and (value > least if is_open else value >= least)
        if not is_above or (most is not None and value > most):
            refuse(value, path, allowed)
        return float(value)

    return honored(name, allowed, read, default, **words)


def boolean(name: str, default: bool, **words: str) -> Field:
    """Describe a field that is true or false."""
    return honored(name, "`true` or `false`", read_boolean, default, **words)


def text(name: str, default: Any = None, **words: str) -> Field:
    """Describe a field that is a text."""
    return honored(name, "a text", read_text, default, **words)


def token_ids(name: str, default: Any = (), **words: str) -> Field:
    """Describe a field that is a list of token ids."""
    return honored(name, "a list of token ids", read_token_ids, default, **words)


def one_of(*readers: tuple[type, Read], allowed: str) -> Read:
    """Return what reads a value by its type."""

    def read(value: Any, path: str) -> Any:
        for kind, read_kind in readers:
            if type(value) is kind:
                return read_kind(value, path)
        refuse(value, path, allowed)

    return read


def read_boolean(value: Any, path: str) -> bool:
    """Return a value that must be true or false."""
    return value if type(value) is bool else refuse(value, path, "true or false")


def read_text(value: Any, path: str) -> str:
    """Return a value that must be a text."""
    return value if isinstance(value, str) else refuse(value, path, "a text")


def read_texts(value: Any, path: str) -> list[str]:
    """Return a value that must be a list of texts."""
    return [read_text(item, f"{path}[{index}]") for index, item in enumerate(read_list(value, path))]


def read_token_ids(value: Any, path: str) -> list[int]:
    """Return a value that must be a list of token ids; whether the model has them is not looked at."""
    ids = read_list(value, path)
    for index, token_id in enumerate(ids):
        if type(token_id) is not int or not 0 <= token_id < 1 << 31:
            refuse(token_id, f"{path}[{index}]", "a token id, a whole number of at least 0")
    return ids


def read_list(value: Any, path: str) -> list[Any]:
    """Return a value that must be a list."""
    return cast("list[Any]", value) if isinstance(value, list) else refuse(value, path, "a list")


def read_object(value: Any, path: str) -> Mapping[str, Any]:
    """Return a value that must be an object."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else refuse(value, path, "an object")


def _range(least: float, most: float | None, *, is_open: bool = False) -> str:
    low = f"above {least:,}" if is_open else f"at least {least:,}"
    if most is None:
        return low
    return f"{low} and at most {most:,}" if is_open else f"{least:,} to {most:,}"
