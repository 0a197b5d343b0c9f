"""Which tools a chat may call, and how: the request's fields, and the constraints that come of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sureact.server.api_error import ApiError
from sureact.server.field_values import read_boolean, read_list, read_object, read_text, refuse
from sureact.server.request_fields import MISSING, Field, honored, read_fields, shown

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


_FUNCTION_FIELDS: Sequence[Field] = (
    honored("name", "a name", _name, MISSING),
    honored("description", "a text", read_text),
    honored("parameters", "a JSON schema of an object", read_object, _NO_ARGUMENTS),
    honored("strict", "`true` or `false`", read_boolean, note="Arguments always fit their schema."),
)
_TOOL_FIELDS: Sequence[Field] = (
    honored("type", '`"function"`', _function_type, MISSING),
    honored("function", "an object", read_object, MISSING),
)
_CHOICE_FIELDS: Sequence[Field] = _TOOL_FIELDS
_NAMED_FIELDS: Sequence[Field] = (honored("name", "the name of a tool", read_text, MISSING),)


def read_tools(value: Any, path: str) -> list[dict[str, Any]]:
    """Read the field `tools`.

    Raises:
        ApiError: it is no list of functions, or holds a name twice.
    """
    tools = read_list(value, path)
    if len(tools) > MAX_TOOLS:
        refuse(f"{len(tools)} tools", path, f"at most {MAX_TOOLS} tools")
    functions: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        place = f"{path}[{index}]"
        fields = read_fields(read_object(tool, place), _TOOL_FIELDS, path=place)
        function = read_fields(fields["function"], _FUNCTION_FIELDS, path=f"{place}.function")
        if any(function["name"] == other["function"]["name"] for other in functions):
            raise ApiError(
                f"{place}.function.name is {function['name']!r}, which another tool has too.",
                param=f"{place}.function.name",
                code="invalid_value",
            )
        functions.append({"type": "function", "function": _notation(function)})
    return functions


def read_tool_choice(value: Any, path: str) -> str | dict[str, Any]:
    """Read the field `tool_choice`: a word, or the tool's name in an object."""
    if value in ("none", "auto", "required"):
        return value
    if not isinstance(value, dict):
        refuse(value, path, "'none', 'auto', 'required' or an object that names a function")
    fields = read_fields(read_object(value, path), _CHOICE_FIELDS, path=path)
    return read_fields(fields["function"], _NAMED_FIELDS, path=f"{path}.function")


def tool_plan(tools: Sequence[dict[str, Any]], choice: str | dict[str, Any] | None, *, is_parallel: bool) -> ToolPlan:
    """Bring the fields together.

    Raises:
        ApiError: a choice without tools, or one that names none of them.
    """
    names = frozenset(tool["function"]["name"] for tool in tools)
    if isinstance(choice, dict):
        name = choice["name"]
        if name not in names:
            raise ApiError(
                f"tool_choice names {shown(name)}, which is none of the tools.",
                param="tool_choice.function.name",
                code="invalid_value",
            )
        return ToolPlan(tools, frozenset({name}), "required", is_parallel=False)
    if choice == "required" and not tools:
        raise ApiError(
            "tool_choice is 'required', but there are no tools. Give tools, or leave it out.",
            param="tool_choice",
            code="invalid_value",
        )
    if choice == "none" or not tools:
        return ToolPlan((), frozenset(), "none", is_parallel)
    return ToolPlan(tools, names, "required" if choice == "required" else "auto", is_parallel)


def _notation(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function as chat templates take it, without what was not given."""
    kept = {name: value for name, value in function.items() if name != "strict" and value is not None}
    return {"name": function["name"], "description": function["description"] or "", **kept}
