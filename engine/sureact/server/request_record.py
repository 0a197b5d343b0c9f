"""What is noted of a request while it is answered: for the log and for the metrics."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import Scope

    from sureact.outputs import StreamDelta
    from sureact.server.api_error import ApiError
    from sureact.server.metrics import Metrics
    from sureact.server.turn_events import TurnUsage

RECORD = "sureact.record"
"""Where a request's scope holds its record."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_current: ContextVar[RequestRecord | None] = ContextVar("sureact_request_record", default=None)


@dataclass(slots=True)
class Generation:
    """One text of a request, from the moment its request may run."""

    metrics: Metrics | None
    started_at: float
    arrived_at: float
    first_at: float | None = None
    last_at: float | None = None

    def saw(self, delta: StreamDelta) -> None:
        """Note tokens that came."""
        num_tokens = len(delta.token_ids)
        if self.metrics is None or not num_tokens:
            return
        now = time.monotonic()
        if self.first_at is None:
            self.first_at = now
            self.metrics.time_to_first_token.observe(now - self.arrived_at)
            self.metrics.prefill_time.observe(now - self.started_at)
        elif self.last_at is not None:
            self.metrics.saw_token((now - self.last_at) / num_tokens)
        self.last_at = now
        self.metrics.generation_tokens.inc(num_tokens)

    def end(self, usage: TurnUsage, finish_reason: str) -> None:
        """Note the end of a text."""
        if self.metrics is None:
            return
        if self.first_at is not None and self.last_at is not None:
            self.metrics.decode_time.observe(self.last_at - self.first_at)
        self.metrics.count_text(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, finish_reason)
        record = _current.get()
        if record is not None:
            record.count(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, finish_reason)


@dataclass(slots=True)
class RequestRecord:
    """One request over HTTP."""

    request_id: str
    method: str
    path: str
    metrics: Metrics
    arrived_at: float = field(default_factory=time.monotonic)
    begun_at: float | None = None
    """When its turn came."""
    first_byte_at: float | None = None
    key_name: str | None = None
    status: int | None = None
    """None if the client left before an answer."""
    error_code: str | None = None
    is_refused: bool = False
    """Whether the request itself was at fault."""
    prompt: Mapping[str, Any] | None = None
    """The body, if that is asked for."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    longest_text: int = 0
    """Tokens of the longest text that ended."""
    finish_reasons: list[str] = field(default_factory=list[str])

    @classmethod
    def of(cls, scope: Scope, metrics: Metrics) -> RequestRecord:
        """Begin the record of a request, under the name that its client gives it, if that is a plain one."""
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        return cls(request_id, scope["method"], scope["path"], metrics)

    def note_error(self, error: ApiError) -> None:
        """Note the error that is told, whether by the status or inside of a stream."""
        self.error_code = error.code
        self.is_refused = error.status < HTTPStatus.INTERNAL_SERVER_ERROR

    def begin(self) -> None:
        """Note that the turn came."""
        self.begun_at = time.monotonic()

    def count(self, prompt_tokens: int, cached_tokens: int, completion_tokens: int, finish_reason: str) -> None:
        """Add a text's tokens."""
        self.prompt_tokens += prompt_tokens
        self.cached_tokens += cached_tokens
        self.completion_tokens += completion_tokens
        self.longest_text = max(self.longest_text, completion_tokens)
        self.finish_reasons.append(finish_reason)

    def entry(self, model: str) -> dict[str, Any]:
        """Return the line of the log."""
        now = time.monotonic()
        entry: dict[str, Any] = {
            "request_id": self.request_id,
            "key": self.key_name,
            "method": self.method,
            "path": self.path[:200],
            "model": model,
            "status": self.status,
            "seconds": round(now - self.arrived_at, 6),
        }
        if self.begun_at is not None:
            entry |= {
                "queue_seconds": round(self.begun_at - self.arrived_at, 6),
                "prompt_tokens": self.prompt_tokens,
                "cached_tokens": self.cached_tokens,
                "completion_tokens": self.completion_tokens,
                "finish_reasons": self.finish_reasons,
            }
        if self.first_byte_at is not None:
            entry["first_byte_seconds"] = round(self.first_byte_at - self.arrived_at, 6)
        if self.error_code is not None:
            entry["error"] = self.error_code
        if self.prompt is not None:
            entry["body"] = self.prompt
        return entry


@contextmanager
def recorded(record: RequestRecord) -> Generator[None]:
    """Make a record that of whatever is done within, on this task and those that it starts."""
    token = _current.set(record)
    try:
        yield
    finally:
        _current.reset(token)


def current_record() -> RequestRecord | None:
    """Return the record of the request that is being answered; None where nobody keeps one."""
    return _current.get()


def new_generation(*, is_later: bool = False) -> Generation:
    """Return where the tokens of a text of the current request are noted.

    Args:
        is_later: whether others of the request came before, so that it begins now.
    """
    record = _current.get()
    if record is None:
        return Generation(None, 0.0, 0.0)
    if is_later:
        now = time.monotonic()
        return Generation(record.metrics, now, now)
    return Generation(record.metrics, record.begun_at or record.arrived_at, record.arrived_at)


@contextmanager
def compile_time() -> Generator[None]:
    """Note how long the constraints of the current request took to compile."""
    start = time.monotonic()
    try:
        yield
    finally:
        record = _current.get()
        if record is not None:
            record.metrics.compile_time.observe(time.monotonic() - start)
