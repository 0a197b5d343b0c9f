"""`/v1/chat/completions`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from sureact.server.chat_answer import AnswerHead, ChatChoice, usage_object
from sureact.server.chat_fields import CHAT_FIELDS
from sureact.server.chat_turn import ChatTurn
from sureact.server.event_stream import EventStream
from sureact.server.sampling_fields import StreamOptions
from sureact.server.turn_events import TextPiece
from sureact.server.turn_plan import plan_turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sureact.server.endpoint import Exchange
    from sureact.server.serving import Serving
    from sureact.server.turn_events import TurnEvent
    from sureact.server.turn_plan import TurnPlan


async def answer_chat(serving: Serving, exchange: Exchange) -> None:
    """Answer a chat.

    Raises:
        ApiError: the request is refused.
        SureactError: the engine failed.
    """
    values = await exchange.read_fields(CHAT_FIELDS)
    serving.check_model(values["model"])
    options = StreamOptions.of(values)
    plan = await plan_turn(serving, values, serving.cache_salt(exchange.scope, values["cache_salt"]))
    choices = [
        ChatChoice(index, serving.vocabulary, values["logprobs"], values["return_token_ids"])
        for index in range(values["n"])
    ]
    if options.is_streamed:
        stream = EventStream(exchange, serving.config.keep_alive_s)
        await stream.run(_stream(serving, plan, values, choices, options, stream))
        return
    await run_all([ChatTurn(serving, plan, _collect(choice, values), index=choice.index).run() for choice in choices])
    head = AnswerHead(serving.model_name, "chat.completion")
    others = {"prompt_token_ids": plan.prompt_ids} if values["return_token_ids"] else {}
    usage = usage_object([choice.end.usage for choice in choices if choice.end is not None])
    await exchange.send_json(head.of([choice.whole for choice in choices], usage=usage, **others))


async def run_all(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Do several things at once; the first that fails ends the others, and its error is raised."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _collect(choice: ChatChoice, values: Mapping[str, Any]) -> Callable[[TurnEvent], Awaitable[None]]:
    async def add(event: TurnEvent) -> None:
        if not _is_hidden(event, values):
            choice.add(event)

    return add


def _is_hidden(event: TurnEvent, values: Mapping[str, Any]) -> bool:
    return isinstance(event, TextPiece) and event.kind == "reasoning" and not values["include_reasoning"]


async def _stream(
    serving: Serving,
    plan: TurnPlan,
    values: Mapping[str, Any],
    choices: Sequence[ChatChoice],
    options: StreamOptions,
    stream: EventStream,
) -> None:
    head = AnswerHead(serving.model_name, "chat.completion.chunk")
    begun: set[int] = set()

    async def send(choice: ChatChoice, event: TurnEvent) -> None:
        if _is_hidden(event, values):
            return
        told = choice.add(event)
        others: dict[str, Any] = {"usage": None} if options.includes_usage else {}
        if choice.index not in begun:
            first = {"prompt_token_ids": plan.prompt_ids} if values["return_token_ids"] and not begun else {}
            begun.add(choice.index)
            await stream.send(head.of([choice.first_delta], **others, **first))
        if told is not None:
            await stream.send(head.of([told], **others))

    def sender(choice: ChatChoice) -> Callable[[TurnEvent], Awaitable[None]]:
        return lambda event: send(choice, event)

    await run_all([ChatTurn(serving, plan, sender(choice), index=choice.index).run() for choice in choices])
    if options.includes_usage:
        usage = usage_object([choice.end.usage for choice in choices if choice.end is not None])
        await stream.send(head.of([], usage=usage))
