"""`/v1/agents/run` and `/v1/agents/tools`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from sureact.agent.prompt_format import call_branches
from sureact.agent.tool import Tool, ToolLike, tools_by_name
from sureact.server.agent_fields import AGENT_FIELDS
from sureact.server.api_error import ApiError
from sureact.server.event_stream import EventStream
from sureact.server.served_agent import ServedAgent

if TYPE_CHECKING:
    from sureact.server.agent_answer import AgentEvent
    from sureact.server.endpoint import Exchange
    from sureact.server.serving import Serving


def served_tools(tools: Iterable[ToolLike], timeout_s: float) -> Mapping[str, Tool]:
    """Return tools by name, none without a time limit.

    Raises:
        ToolDefinitionError: one cannot be described, or two have one name.
        UnsupportedSchemaError: the arguments of one cannot be enforced.
    """
    named = {name: tool.with_timeout(timeout_s) for name, tool in tools_by_name(tools).items()}
    call_branches(named)
    return named


async def answer_agent_tools(serving: Serving, exchange: Exchange) -> None:
    """List the tools.

    Raises:
        ApiError: the server has none.
    """
    _require_tools(serving)
    tools = [
        {"name": name, "description": tool.desc, "parameters": tool.parameters} for name, tool in serving.tools.items()
    ]
    await exchange.send_json({"object": "list", "data": tools})


async def answer_agent_run(serving: Serving, exchange: Exchange) -> None:
    """Run an agent.

    Raises:
        ApiError: the request is refused.
        SureactError: the engine failed.
    """
    _require_tools(serving)
    values = await exchange.read_fields(AGENT_FIELDS)
    serving.check_model(values["model"])
    agent = ServedAgent(serving, values, serving.cache_salt(exchange.scope, values["cache_salt"]))
    if not values["stream"]:
        await exchange.send_json(await agent.run())
        return

    async def tell(event: AgentEvent) -> None:
        await stream.send(event, name=event["type"])

    async def work() -> None:
        await agent.run(tell)

    def told(error: ApiError) -> list[AgentEvent]:
        return [{"type": "error", "id": agent.run_id, **error.body}]

    stream = EventStream(exchange, serving.config.keep_alive_s, told=told)
    await stream.run(work())


def refused_run(error: ApiError) -> list[AgentEvent]:
    """Return the event of an error in a stream of which no run has begun."""
    return [{"type": "error", **error.body}]


def _require_tools(serving: Serving) -> None:
    if not serving.tools:
        raise ApiError(
            "This server has no tools for agents. Start it with `sureact serve --tools FILE.py`.",
            status=HTTPStatus.NOT_FOUND,
            code="no_tools",
        )
