"""A function that the model may call: its name, what it is for, and the JSON schema of its arguments."""

from __future__ import annotations

import inspect
import re
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sureact.agent.docstring import Docstring, parse_docstring
from sureact.agent.json_object import JsonObject, ObjectField
from sureact.errors import ToolDefinitionError, ToolExecutionError

if TYPE_CHECKING:
    from sureact.constraints.json_schema import JsonSchemaConstraint

FINISH = "finish"
"""Name of the built-in tool that ends a run."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


class Tool:
    """A function with the schema of its arguments.

    What is not given is read from the function: its name, its docstring (Google, NumPy or reST) and its annotations.
    """

    def __init__(
        self,
        func: Callable[..., object],
        name: str | None = None,
        desc: str | None = None,
        args: Mapping[str, Any] | None = None,
        *,
        repeatable: bool = False,
    ) -> None:
        """Describe a function.

        Args:
            func: called with keyword arguments.
            name: a letter or `_`, then letters, digits, `_`, `.` or `-`; at most 64 characters.
            desc: what the tool is for, as the model reads it.
            args: JSON schema per argument, or one schema of type `object` for all of them; annotations are not read
                then, and values are passed as they were parsed.
            repeatable: whether the same call may give another result later, so that an agent may repeat it.

        Raises:
            ToolDefinitionError: the name is not allowed, or the arguments cannot be described.
        """
        self.func = func
        self.name = _checked_name(func, name)
        docstring = parse_docstring(inspect.getdoc(func))
        self.desc = docstring.summary if desc is None else desc
        self.repeatable = repeatable
        # What reads a function, such as a filter of outlines' templates, reads a tool.
        self.__name__, self.__doc__, self.__wrapped__ = self.name, self.desc, func
        if inspect.iscoroutinefunction(func) or inspect.isasyncgenfunction(func):
            raise ToolDefinitionError(f"Tool {self.name!r} is an async function; wrap it in one that is not.")
        self._object = None if args is not None else _described_arguments(func, self.name, docstring)
        self.parameters: dict[str, Any] = self._object.schema if self._object else _given_schema(args, self.name)
        """JSON schema of the arguments: an object."""

    @property
    def args(self) -> dict[str, Any]:
        """JSON schema per argument."""
        return self.parameters.get("properties", {})

    def check(self, args: Mapping[str, object]) -> None:
        """Judge parsed arguments by the schema.

        Raises:
            ToolExecutionError: an argument is missing, unknown or not of its schema.
        """
        errors = [
            f"{'.'.join(map(str, error.absolute_path)) or 'arguments'}: {error.message}"
            for error in self._args_constraint.faults(dict(args))
        ]
        if errors:
            raise ToolExecutionError(f"{self.name} refuses {dict(args)!r}: {'; '.join(errors)}")

    @cached_property
    def _args_constraint(self) -> JsonSchemaConstraint:
        """What judges a decoded call also judges one that the user makes, so the two never differ."""
        from sureact.constraints.json_schema import json_schema

        return json_schema(self.parameters, additional_properties="closed")

    def __call__(self, **args: object) -> object:
        """Validate the arguments, convert them to the function's types, and call it.

        Raises:
            ToolExecutionError: the arguments are refused. What the function raises passes through.
        """
        self.check(args)
        return self.func(**self._converted(args))

    def _converted(self, args: Mapping[str, object]) -> dict[str, Any]:
        if self._object is None:
            return dict(args)
        try:
            return self._object.convert(args)
        except ValueError as error:
            raise ToolExecutionError(f"{self.name} refuses {dict(args)!r}: {error}") from error

    def __repr__(self) -> str:
        return f"Tool({self.name}: {', '.join(self.args)})"


def tools_by_name(tools: Iterable[Tool | Callable[..., object]]) -> dict[str, Tool]:
    """Return the tools under their names, functions made into tools.

    Raises:
        ToolDefinitionError: two tools have one name, or one is called `finish`, which the loop itself defines.
    """
    named: dict[str, Tool] = {}
    for given in tools:
        tool = given if isinstance(given, Tool) else Tool(given)
        if tool.name == FINISH:
            raise ToolDefinitionError(f"A tool is called {FINISH!r}, which ends a run; give yours another name.")
        if tool.name in named:
            raise ToolDefinitionError(f"Two tools are called {tool.name!r}; rename one with Tool(func, name=...).")
        named[tool.name] = tool
    return named


def _checked_name(func: Callable[..., object], name: str | None) -> str:
    if not callable(func):
        raise ToolDefinitionError(f"A tool is made from a callable, not from {func!r}.")
    found = getattr(func, "__name__", type(func).__name__) if name is None else name
    if not isinstance(found, str) or not _NAME.fullmatch(found):
        raise ToolDefinitionError(
            f"{found!r} cannot name a tool: a letter or `_`, then letters, digits, `_`, `.`, `-`, at most 64. "
            "Give one with Tool(func, name=...)."
        )
    return found


def _given_schema(args: Any, tool_name: str) -> dict[str, Any]:
    if not isinstance(args, Mapping):
        raise ToolDefinitionError(f"Tool {tool_name!r}: args is {args!r}; it must map argument names to JSON schemas.")
    if args.get("type") == "object":
        return dict(args)
    for name, schema in args.items():
        if not isinstance(schema, Mapping):
            raise ToolDefinitionError(
                f"Tool {tool_name!r}: the schema of {name!r} is {schema!r}; it must be a mapping."
            )
    required = [name for name, schema in args.items() if "default" not in schema]
    return {"type": "object", "properties": dict(args), "required": required, "additionalProperties": False}


def _described_arguments(func: Callable[..., object], tool_name: str, docstring: Docstring) -> JsonObject:
    types = _type_hints(func, tool_name)
    fields: dict[str, ObjectField] = {}
    for parameter in _parameters(func, tool_name):
        _require_keyword(parameter, tool_name)
        if parameter.name not in types:
            warnings.warn(
                f"Tool {tool_name!r}: {parameter.name!r} has no annotation, so any JSON is allowed.", stacklevel=4
            )
        annotation = types.get(parameter.name, Any)
        fields[parameter.name] = ObjectField(annotation, docstring.params.get(parameter.name, ""), parameter.default)
    try:
        return JsonObject(f"{tool_name}_arguments", fields)
    except TypeError as error:
        raise ToolDefinitionError(f"Tool {tool_name!r}: {error}. Give its schema with Tool(func, args=...).") from error


def _parameters(func: Callable[..., object], tool_name: str) -> Iterable[inspect.Parameter]:
    try:
        return inspect.signature(func).parameters.values()
    except ValueError as error:  # a function written in C that does not say what it takes
        raise ToolDefinitionError(f"Tool {tool_name!r}: {error}. Give its schema with Tool(func, args=...).") from error


def _type_hints(func: Callable[..., object], tool_name: str) -> dict[str, Any]:
    target = func if inspect.isroutine(func) else getattr(func, "func", type(func).__call__)
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception as error:  # an annotation written as text is the user's code and may raise anything
        raise ToolDefinitionError(
            f"Tool {tool_name!r} has an annotation that cannot be read: {type(error).__name__}: {error}"
        ) from error


def _require_keyword(parameter: inspect.Parameter, tool_name: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise ToolDefinitionError(
            f"Tool {tool_name!r}: parameter `{parameter}` cannot be given by name. Name every parameter, or describe "
            "them with Tool(func, args=...)."
        )
