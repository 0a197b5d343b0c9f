"""Writes a tool for a prompt: as a typed signature with descriptions, or as an OpenAI function."""

from __future__ import annotations

import json

from sureact.agent.tool import Tool
from sureact.agent.type_notation import type_notation


def signature_notation(tool: Tool) -> str:
    """Return the tool as Python would declare it.

    search(query: str, k: int = 5)
        Searches the archive.
        query: words to look for
    """
    notes = [f"{name}: {schema['description']}" for name, schema in tool.args.items() if schema.get("description")]
    lines = [f"{tool.name}({arguments_notation(tool)})", *tool.desc.splitlines(), *notes]
    return "\n    ".join(lines)


def arguments_notation(tool: Tool) -> str:
    """Return the arguments of a tool as Python would declare them: `query: str, k: int = 5`."""
    required = tool.parameters.get("required", ())
    arguments: list[str] = []
    for name, schema in tool.args.items():
        default = "" if name in required else f" = {json.dumps(schema.get('default'), ensure_ascii=False)}"
        arguments.append(f"{name}: {type_notation(schema, tool.parameters)}{default}")
    return ", ".join(arguments)


def function_notation(tool: Tool) -> dict[str, object]:
    """Return the tool as chat templates take it."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.desc, "parameters": tool.parameters},
    }
