"""HTTP/1.1 on a connection whose client may neither dawdle nor overfill the server; what is refused is told in JSON."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import h11
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from sureact.server.api_error import ApiError, unavailable
from sureact.server.server_config import ServerConfig

_UNSENT_BYTES = 16 * 2**10
"""What the kernel takes of an answer before the client's side has room for it."""


def bounded_protocol(config: ServerConfig) -> type[H11Protocol]:
    """Return the protocol with the limits of a server; uvicorn makes one of it per connection."""

    class Bounded(BoundedProtocol):
        max_connections = config.max_connections
        max_head_bytes = config.max_head_bytes
        timeout_s = config.read_timeout_s

    return Bounded


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol with limits to connections, heads, and how long a client may send or take nothing.

    uvicorn waits forever for the head of a request, for the rest of a body that was answered early, and for a client
    that takes no answer.
    """

    max_connections: int
    max_head_bytes: int
    timeout_s: float

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = _BoundedHead(self.max_head_bytes)
        self._read_timer: asyncio.TimerHandle | None = None
        """Runs while a head, or the rest of a body that nobody reads, is to come."""
        self._write_timer: asyncio.TimerHandle | None = None
        """Runs while the client has not taken all that was sent, also once the connection is to be closed."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        # Whatever the client does not take pauses writing, and is here rather than in the kernel, to be seen shrinking.
        transport.set_write_buffer_limits(high=0)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        if len(self.connections) > self.max_connections:
            self._refuse(unavailable("The server has as many connections as it takes.", "overloaded"))
            return
        self._watch_reading(self._head_is_late)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_reading()
        self._forget_writing()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():  # refused, perhaps before there was a cycle
            return
        if self.conn.their_state is h11.IDLE:  # a part of a head, perhaps of a further request
            self._watch_reading(self._head_is_late)
        elif not self._is_answered_early():
            self._forget_reading()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_answered_early():
            # To close at once could take the answer from a client that still sends.
            self._watch_reading(self.transport.close)

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_writing(self.transport.get_write_buffer_size())

    @override
    def resume_writing(self) -> None:
        self._forget_writing()
        super().resume_writing()

    @override
    def _should_upgrade(self) -> bool:
        return False  # and no word about it: an upgrade may be ignored, and there is none to install

    @override
    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or has too long a head."""
        error = sys.exc_info()[1]
        hint = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else HTTPStatus.BAD_REQUEST
        if hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            message, code = "The head of the request is longer than this server reads.", "head_too_large"
        else:
            message, code = "The request is not HTTP/1.1.", "invalid_http"
        self._refuse(ApiError(message, status=hint, code=code))

    def _is_answered_early(self) -> bool:
        """Whether a request was answered before its body had come."""
        return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

    def _watch_reading(self, end: Callable[[], None]) -> None:
        if self._read_timer is None and not self.transport.is_closing():
            self._read_timer = self.loop.call_later(self.timeout_s, end)

    def _forget_reading(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _head_is_late(self) -> None:
        message = f"The head of the request did not come within {self.timeout_s:g} seconds."
        self._refuse(ApiError(message, status=HTTPStatus.REQUEST_TIMEOUT, code="read_timeout"))

    def _watch_writing(self, num_bytes: int) -> None:
        self._write_timer = self.loop.call_later(self.timeout_s, self._writing_is_late, num_bytes)

    def _forget_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _writing_is_late(self, num_bytes: int) -> None:
        """End the connection, unless the client took something since `num_bytes` were left."""
        num_left = self.transport.get_write_buffer_size()
        if num_left < num_bytes:
            self._watch_writing(num_left)
        else:
            self.transport.abort()

    def _refuse(self, error: ApiError) -> None:
        """Answer, unless another answer has begun, and close."""
        self._forget_reading()
        # uvicorn declares the cycle without the None that it begins with.
        if self.cycle is None or self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            body = error.body_bytes
            own = (("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close"))
            head = "".join(f"{name}: {value}\r\n" for name, value in (*own, *error.headers))
            status = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n"
            self.transport.write(f"{status}{head}\r\n".encode() + body)
        self.transport.close()


class _BoundedHead(h11.Connection):
    """A server's side of HTTP/1.1. h11 limits what it keeps of a head, which is none of it where all comes at once."""

    def __init__(self, max_head_bytes: int) -> None:
        super().__init__(h11.SERVER, max_head_bytes)
        self._max_head_bytes = max_head_bytes

    @override
    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request):
            num_bytes = len(event.method) + len(event.target) + sum(len(n) + len(v) + 4 for n, v in event.headers)
            if num_bytes > self._max_head_bytes:
                raise h11.RemoteProtocolError(
                    "the head is too long", error_status_hint=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                )
        return event
