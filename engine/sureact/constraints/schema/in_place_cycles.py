"""References that lead to one another without going down into a value: in a circle, or in a chain without end in sight.

In a circle no validator would ever finish.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sureact.constraints.schema.keywords import Schema

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLES = ("not", "if", "then", "else")


def find_in_place_cycle(definitions: Mapping[str, Schema]) -> str | None:
    """Return the name of a definition that applies to a value only if it applies to it; None if there is none."""
    return next((name for name, length in _chain_lengths(definitions) if length is None), None)


def find_long_chain(definitions: Mapping[str, Schema], max_length: int) -> str | None:
    """Return the name of a definition that leads through more than `max_length` others; None if there is none.

    Args:
        definitions: none of which applies to a value only if it applies to it.
        max_length: how many definitions may lie, one behind the other, on the way to what is asked of a value.
    """
    return next((name for name, length in _chain_lengths(definitions) if length and length > max_length), None)


def _chain_lengths(definitions: Mapping[str, Schema]) -> Iterator[tuple[str, int | None]]:
    """Yield how many definitions each leads through, itself included; None, and then no other, for one in a cycle."""
    finished: dict[str, int] = {}
    for start in definitions:
        # The names on the way from `start`, each with those it still has to be followed to.
        pending: list[tuple[str, list[str]]] = [(start, in_place_references(definitions[start]))]
        on_the_way = {start}
        while pending:
            name, followers = pending[-1]
            if not followers:
                behind = in_place_references(definitions[name])
                finished[name] = 1 + max((finished[other] for other in behind), default=0)
                yield name, finished[name]
                on_the_way.discard(name)
                pending.pop()
                continue
            follower = followers.pop()
            if follower in on_the_way:
                yield follower, None
                return
            if follower not in finished:
                on_the_way.add(follower)
                pending.append((follower, in_place_references(definitions[follower])))


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
