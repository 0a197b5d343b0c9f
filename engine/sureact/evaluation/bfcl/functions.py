"""The functions of a case as tools: its Python-like types as JSON schema, its dotted names as tools may be called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from sureact.agent.tool import Tool

STUB_RESULT = "Accepted."
"""What a function gives in a loop: there is nothing behind it."""

_TYPES = {"dict": "object", "float": "number", "tuple": "array", "list": "array", "int": "integer", "bool": "boolean"}
_OPEN_TYPES = ("any", "Any")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_LENGTH = 64


class FunctionTools:
    """Tools for the functions of a case, and the way back to the names that the checker knows."""

    def __init__(self, functions: Sequence[Mapping[str, Any]]) -> None:
        self.tools: dict[str, Tool] = {}
        self._given_names: dict[str, str] = {}
        for function in functions:
            name = self._free_name(str(function["name"]))
            self._given_names[name] = str(function["name"])
            self.tools[name] = Tool(
                _stub, name=name, desc=str(function.get("description", "")), args=json_schema_of(function["parameters"])
            )

    def given_name(self, tool_name: str) -> str:
        """Return the name that a function has in its case."""
        return self._given_names[tool_name]

    def _free_name(self, given: str) -> str:
        name = _NOT_IN_NAMES.sub("_", given)[:_MAX_NAME_LENGTH]
        # Not with a digit at its start, not the name that ends a loop, and not one that another function has.
        if not re.match(r"[A-Za-z_]", name) or name == "finish":
            name = f"f_{name}"[:_MAX_NAME_LENGTH]
        while name in self.tools:
            name = f"{name[: _MAX_NAME_LENGTH - 1]}_" if len(name) < _MAX_NAME_LENGTH else f"_{name[:-1]}"
        return name


def json_schema_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a schema with Python-like types.

    `any` becomes no type at all, and an object that names no properties is open. The listed values of an array are
    those of its items. `optional` says what `required` does not, and is left out, as is a default of None.
    """
    schema = {key: value for key, value in parameters.items() if key not in ("optional", "type")}
    given_type = parameters.get("type")
    if isinstance(given_type, str) and given_type not in _OPEN_TYPES:
        schema["type"] = _TYPES.get(given_type, given_type)
    if schema.get("default", 0) is None:
        del schema["default"]
    if isinstance(schema.get("enum"), list):
        _place_enum(schema)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            schema[key] = json_schema_of(schema[key])
    _read_properties(schema)
    return schema


def _place_enum(schema: dict[str, Any]) -> None:
    values = _unique(schema.pop("enum"))
    if schema.get("type") == "array" and not any(isinstance(value, list) for value in values):
        schema["items"] = {**schema.get("items", {}), "enum": values}
    else:
        schema["enum"] = values


def _read_properties(schema: dict[str, Any]) -> None:
    properties = cast("dict[str, Any] | None", schema.get("properties"))
    if properties is None:
        if schema.get("type") == "object":
            schema.setdefault("additionalProperties", True)
        return
    schema["properties"] = {name: json_schema_of(child) for name, child in properties.items()}
    schema["required"] = [name for name in _unique(schema.get("required", ())) if name in properties]


def _unique(values: Sequence[Any]) -> list[Any]:
    return [value for index, value in enumerate(values) if value not in values[:index]]


def _stub(**_: object) -> str:
    return STUB_RESULT
