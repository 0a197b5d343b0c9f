"""`/v1/responses`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sureact.server.chat_turn import ChatTurn
from sureact.server.event_stream import EventStream
from sureact.server.response_answer import ResponseAnswer
from sureact.server.response_fields import RESPONSE_FIELDS, RESPONSE_NAMES, chat_values
from sureact.server.turn_plan import plan_turn

if TYPE_CHECKING:
    from sureact.server.api_error import ApiError
    from sureact.server.endpoint import Exchange
    from sureact.server.serving import Serving
    from sureact.server.turn_events import TurnEvent


def refused_response(error: ApiError) -> list[dict[str, Any]]:
    """Return the event of an error in a stream of which no response has begun."""
    return [{"type": "error", "sequence_number": 0, "code": error.code, "message": str(error), "param": error.param}]


async def answer_response(serving: Serving, exchange: Exchange) -> None:
    """Answer with a response.

    Raises:
        ApiError: the request is refused.
        SureactError: the engine failed.
    """
    values = await exchange.read_fields(RESPONSE_FIELDS)
    serving.check_model(values["model"])
    salt = serving.cache_salt(exchange.scope, values["cache_salt"])
    plan = await plan_turn(serving, chat_values(values), salt, RESPONSE_NAMES)
    answer = ResponseAnswer(serving.model_name, exchange.body, values, serving.vocabulary)
    if not values["stream"]:

        async def collect(event: TurnEvent) -> None:
            answer.add(event)

        await ChatTurn(serving, plan, collect).run()
        await exchange.send_json(answer.whole)
        return
    # The last event says that it is the last.
    stream = EventStream(exchange, serving.config.keep_alive_s, told=answer.fail, end=b"")

    async def tell(event: TurnEvent) -> None:
        for told in answer.add(event):
            await stream.send(told, name=told["type"])

    await stream.run(ChatTurn(serving, plan, tell).run())
