"""Runs one decided call: the tool's result, error or refusal becomes an observation."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sureact.agent.observation import error_text, observation_text
from sureact.agent.tool import Tool
from sureact.errors import InternalError, ToolExecutionError


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave, as text."""

    observation: str
    is_error: bool
    seconds: float


def run_tool(tool: Tool, args: dict[str, Any]) -> ToolResult:
    """Judge the arguments once more and call the tool.

    Raises:
        InternalError: the arguments violate the schema that decoding was to enforce. The tool is not called.
    """
    try:
        tool.check(args)
    except ToolExecutionError as error:
        raise InternalError(f"Decoding let through arguments that violate the schema: {error}") from error
    start = time.perf_counter()
    try:
        text, is_error = observation_text(tool(**args)), False
    # A tool is the user's code and may raise anything; the model reads it and goes on. Ctrl-C is not among these.
    except (Exception, SystemExit) as error:
        text, is_error = error_text(tool.name, error), True
    return ToolResult(text, is_error, time.perf_counter() - start)
