"""Tools of other projects as ours, known by their attributes, so that none of these projects need be installed."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from sureact.agent.tool import Tool
from sureact.agent.tool_schema import allowed_name
from sureact.errors import ToolDefinitionError, ToolExecutionError

_LANGCHAIN = ("name", "description", "args_schema", "invoke", "ainvoke")
_DSPY = ("name", "desc", "args", "arg_types", "func", "acall")


def tools_of(given: Any) -> list[Tool]:
    """Return what stands for one entry of a list of tools.

    A tool of dspy or LangChain, or a dictionary of the Qwen tutorial with its `tool_api`, becomes a tool; a class
    without `__call__` becomes a tool for each of its public methods; anything else is given to `Tool`.

    Raises:
        ToolDefinitionError: it cannot be made a tool.
    """
    if isinstance(given, Tool):
        return [given]
    if inspect.isclass(given):
        has_call = any("__call__" in vars(base) for base in given.__mro__)
        return [Tool(given)] if has_call else Tool.methods_of(given)
    if isinstance(given, Mapping):
        return [from_qwen(cast("Mapping[str, Any]", given))]
    if _has(given, _DSPY):
        return [from_dspy(given)]
    if _has(given, _LANGCHAIN):
        return [from_langchain(given)]
    return [Tool(given)]


def from_langchain(tool: Any, **options: Any) -> Tool:
    """Make a tool of one of LangChain. Arguments that LangChain injects are not shown to the model.

    Raises:
        ToolDefinitionError: it is no such tool.
    """
    if not _has(tool, _LANGCHAIN):
        raise ToolDefinitionError(f"from_langchain takes a tool of LangChain, not {tool!r}.")
    shape = getattr(tool, "tool_call_schema", None) or tool.args_schema
    schema = shape if isinstance(shape, Mapping) else _model_schema(shape, tool.name)
    is_async_only = getattr(tool, "func", _MISSING) is None and getattr(tool, "coroutine", None) is not None

    def call(**args: Any) -> object:
        return tool.ainvoke(args) if is_async_only else tool.invoke(args)

    return _foreign(call, tool.name, tool.description, cast("Mapping[str, Any]", schema), options)


def from_dspy(tool: Any, **options: Any) -> Tool:
    """Make a tool of a `dspy.Tool`, which converts the arguments and runs dspy's callbacks itself.

    Raises:
        ToolDefinitionError: it is no such tool.
    """
    if not _has(tool, _DSPY):
        raise ToolDefinitionError(f"from_dspy takes a dspy.Tool, not {tool!r}.")
    is_async = inspect.iscoroutinefunction(tool.func) or inspect.iscoroutinefunction(
        getattr(type(tool.func), "__call__", None)  # noqa: B004  the method is wanted, not whether there is one
    )

    def call(**given: Any) -> object:
        return tool.acall(**given) if is_async else tool(**given)

    return Tool(call, allowed_name(tool.name), tool.desc or "", dspy_arguments(tool), **options)


def dspy_arguments(tool: Any) -> dict[str, Any]:
    """Return the schemas of what a `dspy.Tool` takes by name; dspy lists `*args` and `**kwargs` among them."""
    unnamed = {parameter.name for parameter in _parameters(tool.func) if parameter.kind in _UNNAMED}
    return {name: schema for name, schema in (tool.args or {}).items() if name not in unnamed}


def from_qwen(description: Mapping[str, Any], func: Callable[..., object] | None = None, **options: Any) -> Tool:
    """Make a tool of a dictionary of the Qwen tutorial.

    Args:
        description: `name_for_model`, `description_for_model` and `parameters`, a list of `name`, `description`,
            `required`, and `schema` or `type`; `name_for_human` becomes the title. What no tool's name holds is
            spelled with `_`, or a name of nothing else in code points.
        func: called with keyword arguments; None for the dictionary's `tool_api`, which is called with the arguments
            as one JSON text, as in the tutorial.
        options: further options of `Tool`.

    Raises:
        ToolDefinitionError: a key is missing or not of its kind.
    """
    name = _text(description, "name_for_model")
    if not name.strip():
        raise ToolDefinitionError(
            "A tool of the Qwen tutorial has an empty name_for_model; the model calls it by that."
        )
    call = func if func is not None else _tool_api(description, name)
    options = {"title": _text(description, "name_for_human", name), **options}
    schema = _qwen_schema(description.get("parameters", []), name)
    return Tool(call, allowed_name(name), _text(description, "description_for_model", ""), schema, **options)


def from_mcp(session: Any, tool: Any, **options: Any) -> Tool:
    """Make a tool of what an MCP server lists, called through an open session.

    The session belongs to the event loop that runs now, and calls are made on it, so run the agent on another thread
    (`await asyncio.to_thread(agent, ...)`). `sureact.integrations.mcp.mcp_tools` opens sessions that have a loop of
    their own.

    Raises:
        ToolDefinitionError: no event loop runs, or these are no session and tool of MCP.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError as error:
        raise ToolDefinitionError(
            "Tool.from_mcp must be called on the event loop of the session; elsewhere use "
            "sureact.integrations.mcp.mcp_tools, which opens sessions itself."
        ) from error
    if not callable(getattr(session, "call_tool", None)) or not isinstance(getattr(tool, "name", None), str):
        raise ToolDefinitionError(f"from_mcp takes an MCP session and a tool that it lists, not {session!r}, {tool!r}.")

    async def call(**args: Any) -> str:
        future = asyncio.run_coroutine_threadsafe(session.call_tool(tool.name, args), loop)
        return mcp_text(await asyncio.wrap_future(future))

    return mcp_tool(call, tool, **options)


def mcp_tool(call: Callable[..., object], tool: Any, *, prefix: str = "", **options: Any) -> Tool:
    """Make a tool of what an MCP server lists and of a way to call it."""
    schema = _either(tool, "input_schema", "inputSchema") or {}
    annotations = getattr(tool, "annotations", None)
    title = getattr(tool, "title", None) or getattr(annotations, "title", None)
    options = {"title": title, **options}
    return _foreign(call, prefix + tool.name, tool.description or "", {"type": "object", **schema}, options)


def mcp_text(result: Any) -> str:
    """Return what an MCP server answered as text; what is no text is told by its kind and size.

    Raises:
        ToolExecutionError: the server says that the tool failed; its text is the message.
    """
    blocks = [_mcp_block(block) for block in result.content or ()]
    structured = _either(result, "structured_content", "structuredContent")
    text = "\n".join(blocks) if blocks or structured is None else json.dumps(structured, ensure_ascii=False)
    if _either(result, "is_error", "isError"):
        raise ToolExecutionError(text or "the server gave no reason")
    return text


def _mcp_block(block: Any) -> str:
    kind = getattr(block, "type", type(block).__name__)
    if kind == "text":
        return block.text
    resource = getattr(block, "resource", block)
    if isinstance(getattr(resource, "text", None), str):
        return resource.text
    data = getattr(resource, "data", None) or getattr(resource, "blob", None)
    size = f", {len(data) * 3 // 4:,} bytes" if isinstance(data, str) else ""
    where = getattr(resource, "uri", None)
    media_type = _either(resource, "mime_type", "mimeType")
    return "[" + ", ".join(str(part) for part in (kind, media_type, where) if part) + size + "]"


def _foreign(
    call: Callable[..., object], name: str, desc: str, schema: Mapping[str, Any], options: Mapping[str, Any]
) -> Tool:
    plain = {key: value for key, value in schema.items() if key not in ("title", "description")}
    return Tool(call, allowed_name(name), desc, _without_titles({"type": "object", **plain}), **options)


def _without_titles(schema: Any) -> Any:
    """Take away the titles that pydantic makes of the names of properties: the model reads the names already."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        return schema
    properties: dict[str, Any] = {}
    for name, item in schema["properties"].items():
        plain = _without_titles(item)
        if isinstance(plain, Mapping) and str(plain.get("title")).replace(" ", "_").lower() == name.lower().strip("_"):
            plain = {key: value for key, value in plain.items() if key != "title"}
        properties[name] = plain
    return {**schema, "properties": properties}


def _model_schema(model: Any, tool_name: str) -> dict[str, Any]:
    read = getattr(model, "model_json_schema", None) or getattr(model, "schema", None)
    if read is None:
        raise ToolDefinitionError(f"Tool {tool_name!r}: its args_schema is {model!r}, which is no pydantic model.")
    return read()


def _qwen_schema(parameters: Any, tool_name: str) -> dict[str, Any]:
    if not isinstance(parameters, list | tuple):
        raise ToolDefinitionError(f"Tool {tool_name!r}: parameters is {parameters!r}; it must be a list.")
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in cast("list[Any]", parameters):
        if not isinstance(parameter, Mapping) or not isinstance(parameter.get("name"), str):
            raise ToolDefinitionError(f"Tool {tool_name!r}: the parameter {parameter!r} has no `name`.")
        schema = parameter.get("schema", {"type": parameter["type"]} if "type" in parameter else {})
        if not isinstance(schema, Mapping):
            raise ToolDefinitionError(f"Tool {tool_name!r}: the schema {schema!r} must be a mapping.")
        described = {"description": parameter["description"]} if parameter.get("description") else {}
        properties[parameter["name"]] = {**schema, **described}
        if parameter.get("required", "default" not in schema):
            required.append(parameter["name"])
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _tool_api(description: Mapping[str, Any], name: str) -> Callable[..., object]:
    api = description.get("tool_api")
    if not callable(api):
        raise ToolDefinitionError(
            f"Tool {name!r} has no function: give Tool.from_qwen(description, func), or a `tool_api` that takes the "
            "arguments as JSON text."
        )

    def call(**args: Any) -> object:
        return api(json.dumps(args, ensure_ascii=False))

    return call


def _text(description: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = description.get(key, default)
    if not isinstance(value, str):
        raise ToolDefinitionError(
            f"A tool of the Qwen tutorial has {key} {value!r}; it must be text. Given were the keys "
            f"{', '.join(map(str, description))}."
        )
    return value


_MISSING = object()
_UNNAMED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _has(given: Any, names: tuple[str, ...]) -> bool:
    return all(hasattr(given, name) for name in names)


def _either(given: Any, *names: str) -> Any:
    """Return the first of these attributes that is there and not None: MCP's 1.x and 2.x spell them differently."""
    return next((value for name in names if (value := getattr(given, name, None)) is not None), None)


def _parameters(func: Callable[..., object]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):  # a function written in C that does not say what it takes
        return []
