"""What every request passes: its name, the key, the limits, and at the end the log and the metrics."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from sureact.server.admission import SEAT
from sureact.server.api_error import ApiError
from sureact.server.cross_origin import CrossOrigin
from sureact.server.endpoint import Exchange
from sureact.server.known_hosts import KnownHosts
from sureact.server.request_record import RECORD, RequestRecord, recorded
from sureact.server.serving import SALT_OF_KEY

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sureact.server.admission import Seat
    from sureact.server.client_key import ClientKey
    from sureact.server.serving import Serving

ALWAYS = frozenset({"/health", "/ready"})
"""What is answered even while the server ends, without a key, and by whatever name probes call the server."""
OPEN = ALWAYS | {"/", "/openapi.json"}
"""What needs no key: it tells nothing about anybody."""
UNLOGGED = ALWAYS | {"/metrics"}
"""What is asked every few seconds by what watches the server."""
RUN_OF_AGENT = "/v1/agents/run"
COMPUTING = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/responses", RUN_OF_AGENT})
"""What needs a seat, and is counted as a request of the model."""
BRIEF = frozenset({"/tokenize", "/detokenize", "/validate"})
"""What needs a seat for a moment, since it decodes nothing."""

request_log = logging.getLogger("sureact.requests")


class Gate:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, serving: Serving) -> None:
        self._app = app
        self._serving = serving
        self._hosts = KnownHosts(serving.config)
        self._cross_origin = CrossOrigin(serving.config.cors_origin)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = scope[RECORD] = RequestRecord.of(scope, self._serving.metrics)
        outer = _ObservedSend(record, send, self._headers(scope, record))
        seat: Seat | None = None
        with recorded(record):
            try:
                if record.path not in ALWAYS:
                    self._hosts.check(scope)
                if self._cross_origin.is_preflight(scope):
                    await Exchange(scope, outer).send_bytes(b"", HTTPStatus.NO_CONTENT)
                    return
                self._cross_origin.check(scope)
                seat = self._let_in(scope, record)
                await self._app(scope, receive, outer)
            except ApiError as error:
                record.note_error(error)
                await Exchange(scope, outer).send_error(error)
            finally:
                if seat is not None:
                    seat.leave()
                self._close(record, is_whole=outer.is_whole, is_counted=seat is not None and record.path in COMPUTING)

    def _let_in(self, scope: Scope, record: RequestRecord) -> Seat | None:
        path, admission = scope["path"], self._serving.admission
        key = None if path in OPEN or path.startswith("/page/") else self._key_of(scope)
        if key is not None:
            record.key_name = key.name
            scope[SALT_OF_KEY] = key.salt
        if path in ALWAYS:
            return None
        if path != "/metrics":
            admission.check(key)
        if scope["method"] != "POST" or not (path in COMPUTING or path in BRIEF):
            return None
        admission = self._serving.brief_admission if path in BRIEF else admission
        seat = scope[SEAT] = admission.enter(key, is_agent=path == RUN_OF_AGENT)
        return seat

    def _key_of(self, scope: Scope) -> ClientKey | None:
        """Return the key that a request comes with; None if the server asks for none.

        Raises:
            ApiError: it has none, or a wrong one.
        """
        serving = self._serving
        if serving.keys is None or (scope["path"] == "/metrics" and serving.config.public_metrics):
            return None
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        kind, _, presented = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if kind.lower() != "bearer" or not presented:
            raise _unauthorized(
                "This server asks for a key: send it as 'Authorization: Bearer KEY'.", "missing_api_key"
            )
        key = serving.keys.find(presented.strip())
        if key is None:
            raise _unauthorized("The key is none of this server's.", "invalid_api_key")
        return key

    def _headers(self, scope: Scope, record: RequestRecord) -> list[tuple[bytes, bytes]]:
        headers = [(b"x-request-id", record.request_id.encode()), (b"x-content-type-options", b"nosniff")]
        return headers + self._cross_origin.headers(scope)

    def _close(self, record: RequestRecord, *, is_whole: bool, is_counted: bool) -> None:
        metrics = self._serving.metrics
        if record.status is not None:
            metrics.count_answer(record.status)
        if is_counted:
            if not is_whole or (record.error_code is not None and not record.is_refused):
                metrics.count_abort()
            if record.begun_at is not None:
                metrics.queue_time.observe(record.begun_at - record.arrived_at)
            if record.finish_reasons:
                metrics.e2e_latency.observe(time.monotonic() - record.arrived_at)
                metrics.longest_text.observe(record.longest_text)
        if self._serving.config.log_requests and record.path not in UNLOGGED:
            entry = record.entry(self._serving.model_name)
            if not is_whole:
                entry["left"] = True
            request_log.info("%s", json.dumps(entry, ensure_ascii=False))


class _ObservedSend:
    """Sends what an application sends, with headers of ours, and notes it."""

    def __init__(self, record: RequestRecord, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        self._record = record
        self._send = send
        self._headers = headers
        self.is_whole = False
        """Whether the answer was sent to its end."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._record.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *self._headers]}
        elif message["type"] == "http.response.body":
            if self._record.first_byte_at is None:
                self._record.first_byte_at = time.monotonic()
            self.is_whole = not message.get("more_body", False)
        await self._send(message)


def _unauthorized(message: str, code: str) -> ApiError:
    headers = (("www-authenticate", "Bearer"),)
    return ApiError(message, status=HTTPStatus.UNAUTHORIZED, code=code, headers=headers)
