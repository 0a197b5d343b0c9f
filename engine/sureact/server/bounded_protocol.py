"""HTTP/1.1 on a connection whose client may neither dawdle nor overfill the server; what is refused is told in JSON."""

from __future__ import annotations

import asyncio
import sys
from http import HTTPStatus
from typing import Any

import h11
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from sureact.server.api_error import ApiError
from sureact.server.server_config import ServerConfig


def bounded_protocol(config: ServerConfig) -> type[H11Protocol]:
    """Return the protocol with the limits of a server; uvicorn makes one of it per connection."""

    class Bounded(BoundedProtocol):
        max_connections = config.max_connections
        head_timeout_s = config.read_timeout_s

    return Bounded


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, which waits forever for the head of a request, with a limit to that and to connections."""

    max_connections: int
    head_timeout_s: float

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_timer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(
                "The server has as many connections as it takes.", HTTPStatus.SERVICE_UNAVAILABLE, "overloaded"
            )
            return
        self._watch_head()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:  # a part of a head, perhaps of a further request
            self._watch_head()
        else:
            self._forget_head()

    @override
    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or has too long a head."""
        error = sys.exc_info()[1]
        hint = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else HTTPStatus.BAD_REQUEST
        if hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self._refuse("The head of the request is longer than this server reads.", hint, "head_too_large")
        else:
            self._refuse("The request is not HTTP/1.1.", hint, "invalid_http")

    def _watch_head(self) -> None:
        if self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self.head_timeout_s, self._head_is_late)

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        message = f"The head of the request did not come within {self.head_timeout_s:g} seconds."
        self._refuse(message, HTTPStatus.REQUEST_TIMEOUT, "read_timeout")

    def _refuse(self, message: str, status: int, code: str) -> None:
        """Answer, unless another answer has begun, and close."""
        self._forget_head()
        # uvicorn declares the cycle without the None that it begins with.
        if self.cycle is None or self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            body = ApiError(message, status=status, code=code).body_bytes
            reason = HTTPStatus(status).phrase
            head = (
                f"HTTP/1.1 {int(status)} {reason}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()
