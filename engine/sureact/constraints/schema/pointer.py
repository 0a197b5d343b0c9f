"""JSON pointers (RFC 6901): where something lies inside a schema."""

from __future__ import annotations

from typing import Any, Final, cast

MISSING: Final = object()
"""Stands for nothing at all, as `value_at` may find."""


def child_pointer(pointer: str, *tokens: str) -> str:
    """Extend `pointer` by one step per token; `~` and `/` inside a token are escaped."""
    escaped = (token.replace("~", "~0").replace("/", "~1") for token in tokens)
    return "/".join((pointer, *escaped))


def value_at(document: object, pointer: str) -> object:
    """Return what `pointer` leads to inside a JSON value, or `MISSING`."""
    here = document
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict):
            here = cast("dict[str, Any]", here).get(name, MISSING)
        elif isinstance(here, list) and name.isdecimal() and int(name) < len(cast("list[Any]", here)):
            here = cast("list[Any]", here)[int(name)]
        else:
            return MISSING
    return here
