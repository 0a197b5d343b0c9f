"""References that come back to where they started without going down into a value: no validator would ever finish."""

from __future__ import annotations

from collections.abc import Mapping

from sureact.constraints.schema.keywords import Schema

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLES = ("not", "if", "then", "else")


def find_in_place_cycle(definitions: Mapping[str, Schema]) -> str | None:
    """Return the name of a definition that applies to a value only if it applies to it; None if there is none."""
    finished: set[str] = set()
    for start in definitions:
        # The names on the way from `start`, each with those it still has to be followed to.
        pending: list[tuple[str, list[str]]] = [(start, in_place_references(definitions[start]))]
        on_the_way = {start}
        while pending:
            name, followers = pending[-1]
            if not followers:
                finished.add(name)
                on_the_way.discard(name)
                pending.pop()
                continue
            follower = followers.pop()
            if follower in on_the_way:
                return follower
            if follower not in finished:
                on_the_way.add(follower)
                pending.append((follower, in_place_references(definitions[follower])))
    return None


def in_place_references(schema: Schema) -> list[str]:
    """List the names of the definitions that apply to the same value as `schema`."""
    found: list[str] = []
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, bool):
            continue
        if "$ref" in part:
            found.append(part["$ref"].removeprefix("#/$defs/"))
        for keyword in _LISTS:
            pending.extend(part.get(keyword, ()))
        pending.extend(part[keyword] for keyword in _SINGLES if keyword in part)
        pending.extend(part.get("dependentSchemas", {}).values())
    return found
