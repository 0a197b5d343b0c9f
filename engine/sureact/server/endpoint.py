"""Runs what answers a request: reads the body, notices that the client leaves, and turns errors into answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from sureact.server.admission import SEAT
from sureact.server.api_error import ApiError, api_error_of
from sureact.server.constraint_cost import check_constraint_cost
from sureact.server.off_loop import read_off_loop
from sureact.server.request_body import ClientDisconnectedError, parse_body, read_body
from sureact.server.request_fields import read_fields
from sureact.server.request_record import RECORD

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from sureact.server.event_stream import EventStream
    from sureact.server.request_fields import Field
    from sureact.server.server_config import ServerConfig
    from sureact.server.serving import Serving

_logger = logging.getLogger(__name__)


class Exchange:
    """One request, with its body read, and the way to answer it."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.scope = scope
        self.body: dict[str, Any] = {}
        self.num_body_bytes = 0
        self.is_answered = False
        """Whether an answer has begun, so that an error can no longer be told by its status."""
        self.fail: Callable[[ApiError], Awaitable[None]] | None = None
        """Tells an error inside an answer that has begun, and ends it; None where that cannot be, as in plain JSON."""
        self._send = send

    async def read_fields(self, fields: Sequence[Field]) -> dict[str, Any]:
        """Return the value of every field of the body, defaults included.

        Raises:
            ApiError: a field is unknown, missing, or has a value that is not allowed.
        """
        return await read_off_loop(self.num_body_bytes, read_fields, self.body, fields)

    async def send_json(self, value: Any, status: int = HTTPStatus.OK) -> None:
        """Answer with JSON."""
        await self.send_bytes(json_bytes(value), status)

    async def send_bytes(
        self,
        body: bytes,
        status: int = HTTPStatus.OK,
        *,
        content_type: str = "application/json",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Answer with a whole body."""
        await self.begin(status, (("content-type", content_type), ("content-length", str(len(body))), *headers))
        await self.send_piece(body, is_last=True)

    async def begin(self, status: int, headers: tuple[tuple[str, str], ...]) -> None:
        """Send status and headers."""
        self.is_answered = True
        raw = [(name.encode(), value.encode()) for name, value in headers]
        await self._send({"type": "http.response.start", "status": int(status), "headers": raw})

    async def send_piece(self, piece: bytes, *, is_last: bool = False) -> None:
        """Send a piece of a body that has begun."""
        await self._send({"type": "http.response.body", "body": piece, "more_body": not is_last})

    async def send_error(self, error: ApiError) -> None:
        """Answer with an error."""
        await self.send_bytes(error.body_bytes, error.status, headers=error.headers)


def json_bytes(value: Any) -> bytes:
    """Return a value as it is sent. Half of a surrogate pair, which has no UTF-8, is an escape."""
    return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace")


Answer = Callable[["Serving", Exchange], Awaitable[None]]
"""Answers a request. An error is raised; one that comes after the answer has begun is the function's own affair."""
NewStream = Callable[[Exchange, float], "EventStream"]
"""From an exchange and the seconds of silence after which a comment is sent to its stream."""


class Endpoint:
    """An ASGI application for one route.

    Neither plain handlers nor streams of web frameworks hear that a client left while they compute, so every endpoint
    listens for it here; what runs for that client is then cancelled.
    """

    def __init__(
        self, serving: Serving, answer: Answer, *, has_body: bool = True, new_stream: NewStream | None = None
    ) -> None:
        """Take what answers.

        Args:
            serving: what is asked.
            answer: answers a request.
            has_body: whether requests have a body that is read.
            new_stream: begins the stream of a request that asks for one, should its turn be long in coming.
        """
        self._serving = serving
        self._answer = answer
        self._has_body = has_body
        self._new_stream = new_stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        exchange = Exchange(scope, send)
        try:
            if self._has_body:
                await self._read_body(exchange, receive)
            await run_while_connected(receive, self._answer_in_turn(exchange))
        except ClientDisconnectedError:
            _logger.debug("A client left before its answer")
        except Exception as error:  # the boundary: whatever went wrong, its client gets an answer
            answer = api_error_of(error)
            if (record := scope.get(RECORD)) is not None:
                record.note_error(answer)
            if not exchange.is_answered:
                await exchange.send_error(answer)
            elif exchange.fail is not None:
                await exchange.fail(answer)
            else:
                raise ConnectionAbortedError("an answer broke off") from error

    async def _answer_in_turn(self, exchange: Exchange) -> None:
        """Answer once the request's turn has come, if it takes turns."""
        seat, record = exchange.scope.get(SEAT), exchange.scope.get(RECORD)
        if seat is None or record is None:
            await self._answer(self._serving, exchange)
            return
        if self._serving.config.log_prompts:
            record.prompt = exchange.body
        async with contextlib.AsyncExitStack() as waiting:

            async def answer() -> None:
                await waiting.aclose()
                await self._answer(self._serving, exchange)

            if self._new_stream is not None and exchange.body.get("stream") is True:
                stream = self._new_stream(exchange, self._serving.config.keep_alive_s)
                await waiting.enter_async_context(stream.kept_alive())
            await seat.run(answer, begun=record.begin)

    async def _read_body(self, exchange: Exchange, receive: Receive) -> None:
        config = self._serving.config
        try:
            async with asyncio.timeout(config.read_timeout_s):
                data = await read_body(exchange.scope, receive, config.max_body_bytes)
        except TimeoutError as error:
            raise ApiError(
                f"The body did not come within {config.read_timeout_s:g} seconds.",
                status=HTTPStatus.REQUEST_TIMEOUT,
                code="read_timeout",
                headers=(("connection", "close"),),
            ) from error
        exchange.num_body_bytes = len(data)
        exchange.body = await read_off_loop(len(data), _parse, data, config)


def _parse(data: bytes, config: ServerConfig) -> dict[str, Any]:
    body = parse_body(data, config.max_json_depth)
    check_constraint_cost(body, config)
    return body


async def run_while_connected(receive: Receive, work: Awaitable[None]) -> None:
    """Do something for a client, and cancel it when the client leaves.

    Raises:
        ClientDisconnectedError: it left.
    """
    worker = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_until_disconnect(receive))
    try:
        await asyncio.wait({worker, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if not worker.done():
            raise ClientDisconnectedError
        await worker
    finally:
        for task in (worker, watcher):
            task.cancel()
        await asyncio.gather(worker, watcher, return_exceptions=True)


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
