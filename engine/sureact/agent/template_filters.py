"""What a prompt template can say of a tool, a function or a schema: outlines' filters, which here take a `Tool` too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sureact.agent.tool import Tool
from sureact.agent.tool_notation import arguments_notation

if TYPE_CHECKING:
    from collections.abc import Callable

# outlines is imported where a filter runs: it takes a second, and most templates use none.


def _name(value: Any) -> str:
    """Name of a tool or a callable."""
    from outlines.templates import get_fn_name

    return get_fn_name(value)


def _description(value: Any) -> str:
    """First line of what a tool or a callable is for."""
    from outlines.templates import get_fn_description

    return get_fn_description(value)


def _source(value: Any) -> str:
    """Source code of a callable, or of a tool's."""
    from outlines.templates import get_fn_source

    return get_fn_source(value)


def _signature(value: Any) -> str:
    """Parameters of a callable as its source writes them; those of a tool as its schema has them."""
    from outlines.templates import get_fn_signature

    return arguments_notation(value) if isinstance(value, Tool) else get_fn_signature(value)


def _args(value: Any) -> str:
    """Parameters of a callable as Python prints them; those of a tool as its schema has them."""
    from outlines.templates import get_fn_args

    return arguments_notation(value) if isinstance(value, Tool) else get_fn_args(value)


def _schema(value: Any) -> str:
    """A pydantic model or a schema as indented JSON; the schema of a tool's arguments."""
    from outlines.templates import get_schema

    return tool_schema(value) if isinstance(value, Tool) else get_schema(value)


def tool_schema(tool: Tool) -> str:
    """Return the JSON schema of a tool's arguments as indented JSON."""
    return json.dumps(tool.parameters, indent=2, ensure_ascii=False)


FILTERS: dict[str, Callable[[Any], str]] = {
    "args": _args,
    "description": _description,
    "name": _name,
    "schema": _schema,
    "signature": _signature,
    "source": _source,
}
"""Filter per name, as a template uses it: `{{ tool | name }}`."""
