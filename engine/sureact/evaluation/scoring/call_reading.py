"""Reads the calls in a text that nothing constrained, as a careful client would, and judges calls by their schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from sureact.agent.tool import Tool
from sureact.constraints.json_schema import json_schema

_LABELLED = re.compile(r"Action:[ \t]*(?P<name>[^\s:]+)\s*\n\s*(?:Arguments|Action Input):\s*")
_decoder = json.JSONDecoder()


class ReadCall(NamedTuple):
    """A call as it was read."""

    tool_name: str
    args: dict[str, Any]
    fault: str = ""
    """Why it is no valid call; empty for one that is."""


def read_calls(text: str, tools: Mapping[str, Tool]) -> list[ReadCall]:
    """Return the calls in a text, in order: objects with `name` and `arguments`, or labelled lines.

    What surrounds them is ignored: prose, tags, code fences. Arguments may also be a JSON text of an object, as some
    models write them.
    """
    calls = [judged(name, args, tools) for name, args in _labelled_calls(text)]
    return calls or [judged(name, args, tools) for name, args in _json_calls(text)]


def judged(name: object, args: object, tools: Mapping[str, Tool]) -> ReadCall:
    """Return a call with its fault, if it has one: a tool that is not there, or arguments against its schema."""
    if not isinstance(name, str) or name not in tools:
        return ReadCall(str(name), {}, f"There is no tool {name!r}.")
    if isinstance(args, str):
        args = first_object(args)
    if not isinstance(args, dict):
        return ReadCall(name, {}, "The arguments are no JSON object.")
    given = cast("dict[str, Any]", args)
    constraint = json_schema(tools[name].parameters, additional_properties="closed")
    fault = next((str(error.message) for error in constraint.faults(given)), "")
    return ReadCall(name, given, fault)


def first_object(text: str) -> dict[str, Any] | None:
    """Return the first JSON object in a text, or None."""
    return next(iter(_objects(text)), None)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    position = text.find("{")
    while position >= 0:
        try:
            value, end = _decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            yield value
        position = text.find("{", end)


def _json_calls(text: str) -> Iterable[tuple[object, object]]:
    for value in _objects(text):
        if "name" in value and ("arguments" in value or "parameters" in value):
            yield value["name"], value.get("arguments", value.get("parameters"))


def _labelled_calls(text: str) -> Iterable[tuple[object, object]]:
    for match in _LABELLED.finditer(text):
        try:
            yield match["name"], _decoder.raw_decode(text, match.end())[0]
        except (ValueError, RecursionError):
            yield match["name"], None
