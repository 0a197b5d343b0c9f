"""JSON pointers (RFC 6901): where something lies inside a schema, and what lies at a place."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import unquote


def child_pointer(pointer: str, *tokens: str) -> str:
    """Extend `pointer` by one step per token; `~` and `/` inside a token are escaped."""
    escaped = (token.replace("~", "~0").replace("/", "~1") for token in tokens)
    return "/".join((pointer, *escaped))


def resolve_local_ref(document: object, ref: str) -> Any:
    """Return what a reference such as `#/$defs/a~1b` points to; `#` is the whole document.

    Raises:
        LookupError: the reference leaves the document, names an anchor, or points to nothing.
    """
    if ref != "#" and not ref.startswith("#/"):
        raise LookupError(f"{ref!r} is not a JSON pointer into the document.")
    here = document
    for token in ref.split("/")[1:]:
        step = unquote(token).replace("~1", "/").replace("~0", "~")
        here = cast("list[object]", here)[_list_index(step)] if isinstance(here, list) else _member(here, step)
    return here


def _list_index(step: str) -> int:
    if not step.isdecimal():
        raise LookupError(f"{step!r} is not a list index.")
    return int(step)


def _member(here: object, step: str) -> object:
    if not isinstance(here, dict):
        raise LookupError(f"Nothing lies below {step!r}.")
    return cast("dict[str, object]", here)[step]
