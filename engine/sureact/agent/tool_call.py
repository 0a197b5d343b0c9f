"""Runs one decided call: the tool's result, error or refusal becomes an observation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from sureact.agent.module_scope import current_cancellation
from sureact.agent.observation import cut_to_characters, error_text, observation_text
from sureact.agent.tool import Tool
from sureact.errors import RequestAbortedError, ToolExecutionError, ToolTimeoutError
from sureact.option_values import require_whole

if TYPE_CHECKING:
    from sureact.agent.cancellation import Cancellation

Outcome = Literal["done", "error", "timeout", "denied", "dry_run", "skipped"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave, as text."""

    observation: str
    is_error: bool
    """Whether the tool raised, refused its arguments, gave no result in time, or was not run because the call was
    denied or skipped."""
    seconds: float
    outcome: Outcome = "done"
    error_type: str | None = None
    """Name of the class of what the tool raised."""
    args: dict[str, Any] | None = None
    """Arguments that the tool was run with, where these are not those of the call."""


MAX_RESULT_CHARACTERS = 100_000
"""Characters of a result that are kept where no model's budget cuts it."""


def run_tool(
    tool: Tool,
    args: Mapping[str, Any],
    cancellation: Cancellation | None = None,
    *,
    max_characters: int | None = MAX_RESULT_CHARACTERS,
) -> ToolResult:
    """Judge the arguments and call the tool. Arguments that it refuses are an error too, and the tool is not called.

    Args:
        tool: the tool.
        args: parsed JSON.
        cancellation: gives the call up; the tool runs on a thread of its own then.
        max_characters: most characters of the observation, after which it is cut, with a note; None for no limit.

    Raises:
        ConfigError: `max_characters` is not allowed.
        RequestAbortedError: the call was cancelled.
    """
    most = None if max_characters is None else require_whole("max_characters", max_characters)
    if (refused := refusal(tool, args)) is not None:
        return refused
    start = time.perf_counter()
    try:
        text = cast("str", tool.run(args, observation_text, cancellation))
        return ToolResult(text if most is None else cut_to_characters(text, most), False, time.perf_counter() - start)
    # A tool is the user's code and may raise anything; the model reads it and goes on. Ctrl-C is not among these.
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        ended_by = cancellation or current_cancellation()
        if isinstance(error, RequestAbortedError) and ended_by is not None and ended_by.is_cancelled:
            raise
        return _failed(tool, args, error, time.perf_counter() - start)


def refusal(tool: Tool, args: Mapping[str, Any]) -> ToolResult | None:
    """Return what a call gives whose arguments do not fit the schema of the tool; None where they do."""
    try:
        tool.check(args)
    except ToolExecutionError as error:
        return _failed(tool, args, error, 0.0)
    return None


def _failed(tool: Tool, args: Mapping[str, Any], error: BaseException, seconds: float) -> ToolResult:
    return ToolResult(
        error_text(tool.name, error, _texts_of(args)),
        True,
        seconds,
        outcome="timeout" if isinstance(error, ToolTimeoutError) else "error",
        error_type=getattr(error, "type_name", type(error).__name__),
    )


def _texts_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[object, object]", value).values():
            yield from _texts_of(item)
    elif isinstance(value, list | tuple):
        for item in cast("list[object]", value):
            yield from _texts_of(item)
