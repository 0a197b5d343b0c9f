"""The name of a tool and the JSON schema of its arguments, read from a function or given."""

from __future__ import annotations

import inspect
import re
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from sureact.agent.docstring import Docstring
from sureact.agent.json_object import JsonObject, ObjectField
from sureact.agent.tool_callable import annotated_callable, bound_names, callable_name
from sureact.errors import ToolDefinitionError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


def checked_name(func: Callable[..., object], name: str | None) -> str:
    """Return the given name, else that of the function, which for a `functools.partial` is what it wraps.

    Raises:
        ToolDefinitionError: it cannot name a tool.
    """
    if not callable(func):
        raise ToolDefinitionError(f"A tool is made from a callable, not from {func!r}.")
    found = callable_name(func) if name is None else name
    if not isinstance(found, str) or not _NAME.fullmatch(found):
        raise ToolDefinitionError(
            f"{found!r} cannot name a tool: a letter or `_`, then letters, digits, `_`, `.`, `-`, at most 64. "
            "Give one with Tool(func, name=...)."
        )
    return found


def allowed_name(name: str) -> str:
    """Return a name from outside with `_` for what no tool's name holds, cut to 64 characters.

    One of which nothing would be left, such as a Chinese one, is spelled in code points, so that each stays its own.
    """
    spelled = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:64]
    if name and not re.search(r"[A-Za-z0-9]", spelled):
        spelled = "_".join(f"u{ord(character):04x}" for character in name)[:64]
    return spelled if _NAME.fullmatch(spelled) else f"_{spelled}"[:64]


def given_schema(args: Any, tool_name: str) -> dict[str, Any]:
    """Return the schema of all arguments, from one for all or one for each.

    Raises:
        ToolDefinitionError: it is no schema.
    """
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


def described_arguments(
    func: Callable[..., object], tool_name: str, docstring: Docstring, *, has_self: bool = False
) -> JsonObject:
    """Return what a function takes. What a `functools.partial` binds is not among it.

    Args:
        func: the function.
        tool_name: for messages.
        docstring: what describes the parameters.
        has_self: whether the first parameter is the instance, which no call gives.

    Raises:
        ToolDefinitionError: the arguments cannot be described.
    """
    types = _type_hints(func, tool_name)
    bound = bound_names(func)
    fields: dict[str, ObjectField] = {}
    for parameter in list(_parameters(func, tool_name))[has_self:]:
        if parameter.name in bound:
            continue
        _require_keyword(parameter, tool_name)
        if parameter.name not in types:
            warnings.warn(
                f"Tool {tool_name!r}: {parameter.name!r} has no annotation, so any JSON is allowed.", stacklevel=4
            )
        annotation = types.get(parameter.name, Any)
        fields[parameter.name] = _field(annotation, docstring.params.get(parameter.name, ""), parameter.default)
    try:
        return JsonObject(f"{tool_name}_arguments", fields)
    except TypeError as error:
        raise ToolDefinitionError(f"Tool {tool_name!r}: {error}. Give its schema with Tool(func, args=...).") from error


def field_defaults(func: Callable[..., object]) -> dict[str, FieldInfo]:
    """Return the defaults of a function that are a `pydantic.Field(...)`, which Python would hand over as they are."""
    from pydantic.fields import FieldInfo

    try:
        parameters = inspect.signature(func).parameters.values()
    except ValueError:  # a function written in C that does not say what it takes
        return {}
    return {parameter.name: parameter.default for parameter in parameters if isinstance(parameter.default, FieldInfo)}


def _field(annotation: Any, desc: str, default: object) -> ObjectField:
    """Return a parameter as a field. A default that is a `pydantic.Field(...)` describes it, and holds its default."""
    from pydantic.fields import FieldInfo

    if not isinstance(default, FieldInfo):
        return ObjectField(annotation, desc, default)
    has_value = not default.is_required() and default.default_factory is None
    return ObjectField(Annotated[annotation, default], desc, default.default if has_value else inspect.Parameter.empty)


def _parameters(func: Callable[..., object], tool_name: str) -> Iterable[inspect.Parameter]:
    try:
        return inspect.signature(func).parameters.values()
    except ValueError as error:  # a function written in C that does not say what it takes
        raise ToolDefinitionError(f"Tool {tool_name!r}: {error}. Give its schema with Tool(func, args=...).") from error


def _type_hints(func: Callable[..., object], tool_name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(annotated_callable(func), include_extras=True)
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
