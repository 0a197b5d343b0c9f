"""Judges the values of options, so that a slip is refused where it is made and not in the middle of a run."""

from __future__ import annotations

import inspect
import os

from sureact.errors import ConfigError


def require_whole(name: str, value: object, *, least: int = 1, most: int | None = None) -> int:
    """Return a whole number of a range; a bool is no number.

    Raises:
        ConfigError: it is something else.
    """
    if type(value) is not int or value < least or (most is not None and value > most):
        limit = f"at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise ConfigError(f"{name} is {value!r}; it must be a whole number, {limit}.")
    return value


def require_bool(name: str, value: object) -> bool:
    """Return a bool.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}; it must be True or False.")
    return value


def require_text(name: str, value: object) -> None:
    """Judge a text, or None.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(value, str | None):
        raise ConfigError(f"{name} is {value!r}; it must be a text, or None.")


def require_function(name: str, value: object) -> None:
    """Judge a function that is called and not awaited, or None.

    Raises:
        ConfigError: it cannot be called, or is asynchronous, so that a call would do nothing.
    """
    if value is not None and not callable(value):
        raise ConfigError(f"{name} is {value!r}; it must be a function, or None.")
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "__call__", None)):  # noqa: B004
        raise ConfigError(f"{name} is {value!r}, which is asynchronous; it must be a plain function, or None.")


def require_path(name: str, value: object) -> None:
    """Judge the path of a file, or None.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(value, str | os.PathLike | None) or value == "":
        raise ConfigError(f"{name} is {value!r}; it must be the path of a file, or None.")
