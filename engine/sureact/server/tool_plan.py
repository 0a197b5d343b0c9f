"""Which tools a chat may call, and how: the request's fields, and the constraints that come of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sureact.server.api_error import ApiError
from sureact.server.field_values import read_boolean, read_list, read_object, read_text, refuse
from sureact.server.request_fields import MISSING, Field, honored, neutral, read_fields, shown

if TYPE_CHECKING:
    from sureact.constraints.call_grammar import ToolCallBranch

MAX_TOOLS = 128
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """What a request says of tools."""

    functions: Sequence[dict[str, Any]]
    """As the chat template takes them; empty if none may be called."""
    callable_names: frozenset[str]
    """Those that may be called now."""
    choice: Literal["none", "auto", "required"]
    is_parallel: bool
    """Whether one turn may hold several calls."""

    @property
    def branches(self) -> list[ToolCallBranch]:
        """What may be called, as the call grammar takes it."""
        from sureact.constraints.call_grammar import ToolCallBranch

        functions = [function["function"] for function in self.functions]
        return [
            ToolCallBranch(function["name"], function["parameters"])
            for function in functions
            if function["name"] in self.callable_names
        ]

    def index_of(self, name: str) -> int:
        """Return the place of a tool in the request."""
        return next(index for index, function in enumerate(self.functions) if function["function"]["name"] == name)


def _name(value: Any, path: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        refuse(value, path, "1 to 64 letters, digits, `_`, `.` and `-`")
    return value


def _function_type(value: Any, path: str) -> str:
    return (
        value if value == "function" else refuse(value, path, "'function', the only type of tool that is called here")
    )


_TYPE = honored("type", '`"function"`', _function_type, MISSING)
_NAME_FIELD = honored("name", "the name of a tool", read_text, MISSING)
_FUNCTION_FIELDS: Sequence[Field] = (
    honored("name", "a name", _name, MISSING),
    honored("description", "a text", read_text),
    honored("parameters", "a JSON schema of an object", read_object, _NO_ARGUMENTS),
    honored("strict", "`true` or `false`", read_boolean, note="Arguments always fit their schema."),
)
_NESTED_FIELDS: Sequence[Field] = (_TYPE, honored("function", "an object", read_object, MISSING))
_FLAT_FIELDS: Sequence[Field] = (
    _TYPE,
    *_FUNCTION_FIELDS,
    neutral("defer_loading", False),
    neutral("allowed_callers", ["direct"]),
    neutral("async", False),
    neutral("output_schema"),
)


def read_tools(value: Any, path: str) -> list[dict[str, Any]]:
    """Read the field `tools` of a chat, where a function is a member of its tool.

    Raises:
        ApiError: it is no list of functions, or holds a name twice.
    """
    return _tools(value, path, _FUNCTION_FIELDS, ".function")


def read_flat_tools(value: Any, path: str) -> list[dict[str, Any]]:
    """Read the field `tools` of a response, where a tool is its function.

    Raises:
        ApiError: it is no list of functions, or holds a name twice.
    """
    return _tools(value, path, _FLAT_FIELDS, "")


def _tools(value: Any, path: str, fields: Sequence[Field], where: str) -> list[dict[str, Any]]:
    tools = read_list(value, path)
    if len(tools) > MAX_TOOLS:
        refuse(f"{len(tools)} tools", path, f"at most {MAX_TOOLS} tools")
    functions: list[dict[str, Any]] = []
    names: set[str] = set()
    for index, tool in enumerate(tools):
        place = f"{path}[{index}]"
        function = read_fields(_member(tool, place, is_flat=not where), fields, path=place + where)
        if function["name"] in names:
            raise ApiError(
                f"{place}{where}.name is {function['name']!r}, which another tool has too.",
                param=f"{place}{where}.name",
                code="invalid_value",
            )
        names.add(function["name"])
        functions.append({"type": "function", "function": _notation(function)})
    return functions


def _member(value: Any, path: str, *, is_flat: bool) -> Mapping[str, Any]:
    """Return the object that says what the function is."""
    fields = read_object(value, path)
    if not is_flat:
        return read_fields(fields, _NESTED_FIELDS, path=path)["function"]
    # Tools of other types have other fields, so the type is what is wrong with them.
    _function_type(fields.get("type"), f"{path}.type")
    return fields


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Which calls a request asks for."""

    mode: Literal["none", "auto", "required"]
    names: Mapping[str, str] | None = None
    """The tools that alone may be called, by the field that names each; None for all."""
    is_named: bool = False
    """Whether one call of one tool is asked for."""


def read_tool_choice(value: Any, path: str) -> ToolChoice:
    """Read the field `tool_choice` of a chat: a word, a function's name in objects, or names of tools with a mode.

    Raises:
        ApiError: it is none of these.
    """
    return _choice(value, path, is_flat=False)


def read_flat_tool_choice(value: Any, path: str) -> ToolChoice:
    """Read the field `tool_choice` of a response, whose objects are flat.

    Raises:
        ApiError: it is none of the forms that are honored.
    """
    return _choice(value, path, is_flat=True)


def _choice(value: Any, path: str, *, is_flat: bool) -> ToolChoice:
    if value in ("none", "auto", "required"):
        return ToolChoice(value)
    if not isinstance(value, dict):
        refuse(value, path, "'none', 'auto', 'required' or an object that names a function")
    fields = read_object(value, path)
    if fields.get("type") != "allowed_tools":
        return ToolChoice("required", dict([_named(fields, path, is_flat=is_flat)]), is_named=True)
    if is_flat:
        return _allowed_tools(fields, (_ALLOWED_TYPE, *_ALLOWED_FIELDS), path, is_flat=True)
    nested = (_ALLOWED_TYPE, honored("allowed_tools", "an object", read_object, MISSING))
    allowed = read_fields(fields, nested, path=path)["allowed_tools"]
    return _allowed_tools(allowed, _ALLOWED_FIELDS, f"{path}.allowed_tools", is_flat=False)


def _mode(value: Any, path: str) -> str:
    return value if value in ("auto", "required") else refuse(value, path, "'auto' or 'required'")


_ALLOWED_TYPE = honored("type", '`"allowed_tools"`', read_text, MISSING)
_ALLOWED_FIELDS: Sequence[Field] = (
    honored("mode", '`"auto"` or `"required"`', _mode, MISSING),
    honored("tools", "a list of functions", read_list, MISSING),
)


def _allowed_tools(value: Mapping[str, Any], fields: Sequence[Field], path: str, *, is_flat: bool) -> ToolChoice:
    values = read_fields(value, fields, path=path)
    if not 1 <= len(values["tools"]) <= MAX_TOOLS:
        refuse(f"{len(values['tools'])} tools", f"{path}.tools", f"1 to {MAX_TOOLS} tools")
    tools = [_named(tool, f"{path}.tools[{index}]", is_flat=is_flat) for index, tool in enumerate(values["tools"])]
    return ToolChoice(values["mode"], dict(tools))


def _named(value: Any, path: str, *, is_flat: bool) -> tuple[str, str]:
    """Return the field that names a function, and the name."""
    function = _member(value, path, is_flat=is_flat)
    place = path if is_flat else f"{path}.function"
    return f"{place}.name", read_fields(function, (_TYPE, _NAME_FIELD) if is_flat else (_NAME_FIELD,), path=place)[
        "name"
    ]


def tool_plan(tools: Sequence[dict[str, Any]], choice: ToolChoice | None, *, is_parallel: bool) -> ToolPlan:
    """Bring the fields together.

    Raises:
        ApiError: a choice without tools, or one that names none of them.
    """
    choice = choice or ToolChoice("auto")
    names = frozenset(tool["function"]["name"] for tool in tools)
    for param, name in (choice.names or {}).items():
        if name not in names:
            raise ApiError(f"{param} is {shown(name)}, which is none of the tools.", param=param, code="invalid_value")
    if choice.mode == "required" and not tools:
        raise ApiError(
            "tool_choice is 'required', but there are no tools. Give tools, or leave it out.",
            param="tool_choice",
            code="invalid_value",
        )
    if choice.mode == "none" or not tools:
        return ToolPlan((), frozenset(), "none", is_parallel)
    callable_names = names if choice.names is None else frozenset(choice.names.values())
    return ToolPlan(tools, callable_names, choice.mode, is_parallel and not choice.is_named)


def _notation(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function as chat templates take it."""
    return {
        "name": function["name"],
        "description": function["description"] or "",
        "parameters": function["parameters"],
    }
