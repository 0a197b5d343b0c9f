"""Writes server-sent events: one JSON object an event, comments while nothing comes, and perhaps a mark at the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from sureact.server.api_error import api_error_of
from sureact.server.endpoint import json_bytes
from sureact.server.request_record import current_record

if TYPE_CHECKING:
    from sureact.server.api_error import ApiError
    from sureact.server.endpoint import Exchange

_HEADERS = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    # Proxies such as nginx would hold a stream back until it is long enough.
    ("x-accel-buffering", "no"),
)


DONE = b"data: [DONE]\n\n"
"""The mark at the end that clients of chats look for."""


class EventStream:
    """A stream of events as the answer of an exchange. It begins with the first event, or with the first silence.

    Until then an error is an answer of its own, with a status; afterwards it is an event.
    """

    def __init__(
        self,
        exchange: Exchange,
        keep_alive_s: float,
        *,
        told: Callable[[ApiError], Iterable[dict[str, Any]]] | None = None,
        end: bytes = DONE,
    ) -> None:
        """Take where to send.

        Args:
            exchange: answered by the stream.
            keep_alive_s: silence after which a comment is sent.
            told: the events, each named by its `type`, that tell an error; without it the error's body is one.
            end: sent last.
        """
        self._exchange = exchange
        self._told = told
        self._end = end
        self._keep_alive_s = keep_alive_s
        self._lock = asyncio.Lock()
        self._last_sent = asyncio.get_running_loop().time()

    async def send(self, event: Any, *, name: str | None = None) -> None:
        """Send an object as an event, with the event's name if it has one."""
        head = f"event: {name}\n" if name is not None else ""
        await self._write(b"%sdata: %s\n\n" % (head.encode(), json_bytes(event)))

    async def run(self, work: Awaitable[None]) -> None:
        """Do what sends the events, and end the stream.

        Raises:
            Exception: the work failed before the stream began.
        """
        if self._exchange.is_answered:  # by comments of the stream that waited before this one
            self._exchange.fail = self.fail
        try:
            async with self.kept_alive():
                await work
        except Exception as error:  # the status is sent, so whatever went wrong is told as an event
            if not self._exchange.is_answered:
                raise
            await self._tell(api_error_of(error))
        await self._write(self._end, is_last=True)

    @contextlib.asynccontextmanager
    async def kept_alive(self) -> AsyncGenerator[None]:
        """Send comments while nothing comes of what is done within. The stream goes on, perhaps as another one."""
        keeper = asyncio.ensure_future(self._keep_alive())
        try:
            yield
        finally:
            async with self._lock:  # not in the middle of a comment
                keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    async def fail(self, error: ApiError) -> None:
        """Tell an error that ended the work from outside, such as a time limit, and end the stream."""
        await self._tell(error)
        await self._write(self._end, is_last=True)

    async def _tell(self, error: ApiError) -> None:
        if (record := current_record()) is not None:
            record.note_error(error)
        if self._told is None:
            await self.send(error.body)
            return
        for event in self._told(error):
            await self.send(event, name=event["type"])

    async def _write(self, data: bytes, *, is_last: bool = False) -> None:
        async with self._lock:
            if not self._exchange.is_answered:
                self._exchange.fail = self.fail
                await self._exchange.begin(HTTPStatus.OK, _HEADERS)
            await self._exchange.send_piece(data, is_last=is_last)
            self._last_sent = asyncio.get_running_loop().time()

    async def _keep_alive(self) -> None:
        while True:
            silence = asyncio.get_running_loop().time() - self._last_sent
            if silence >= self._keep_alive_s:
                await self._write(b": keep-alive\n\n")
                silence = 0.0
            await asyncio.sleep(self._keep_alive_s - silence)
