"""JSON pointers (RFC 6901): where something lies inside a schema."""

from __future__ import annotations


def child_pointer(pointer: str, *tokens: str) -> str:
    """Extend `pointer` by one step per token; `~` and `/` inside a token are escaped."""
    escaped = (token.replace("~", "~0").replace("/", "~1") for token in tokens)
    return "/".join((pointer, *escaped))
