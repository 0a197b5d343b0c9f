"""Errors as clients of OpenAI's protocol read them. What goes wrong inside is logged, never told."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import Any

from sureact.errors import (
    ConfigError,
    ConstraintError,
    OutOfMemoryError,
    PromptTooLongError,
    RequestAbortedError,
    SureactError,
    UnsupportedSchemaError,
    WorkerLostError,
)

RETRY_AFTER_S = 5
"""When to ask again where nothing says when there is room."""

_logger = logging.getLogger(__name__)


class ApiError(SureactError):
    """An answer with an error status.

    Args:
        message: what was given, what is allowed and what to do.
        status: HTTP status.
        param: the field at fault, such as `tools[0].function.name`.
        code: a word for programs, such as `unknown_parameter`.
        pointer: JSON pointer to the place inside a schema.
        headers: to send with the answer.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = HTTPStatus.BAD_REQUEST,
        param: str | None = None,
        code: str | None = None,
        pointer: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = int(status)
        self.param = param
        self.code = code
        self.pointer = pointer
        self.headers = headers

    @property
    def type(self) -> str:
        """The kind of error, in OpenAI's words."""
        kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
        if self.status in kinds:
            return kinds[self.status]
        return "server_error" if self.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"

    @property
    def body(self) -> dict[str, Any]:
        """The body of the answer, and of an error event inside a stream."""
        error: dict[str, Any] = {"message": str(self), "type": self.type, "param": self.param, "code": self.code}
        if self.pointer is not None:
            error["pointer"] = self.pointer
        return {"error": error}

    @property
    def body_bytes(self) -> bytes:
        """The body as it is sent."""
        return json.dumps(self.body).encode()


def api_error_of(error: BaseException, *, param: str | None = None) -> ApiError:
    """Return the answer to an error that was raised while a request was served.

    Args:
        error: what was raised; what no client can mend is logged with its traceback, and only named in the answer.
        param: the field that is to blame if the request is.
    """
    match error:
        case ApiError():
            return error
        case PromptTooLongError():
            return ApiError(str(error), param=param, code="context_length_exceeded")
        case UnsupportedSchemaError():
            return ApiError(str(error), param=param, code="unsupported_schema", pointer=error.pointer)
        case ConstraintError():
            return ApiError(str(error), param=param, code="invalid_constraint")
        case ConfigError():
            return ApiError(str(error), param=param, code="invalid_value")
        case RequestAbortedError() | WorkerLostError():
            _logger.warning("The engine ended a request: %s", error)
            return unavailable("The engine is not running. Ask again once the server is back.", "engine_closed")
        case OutOfMemoryError():
            _logger.warning("The engine has no memory for a request: %s", error)
            return unavailable(
                "The engine has no memory for this request. Ask again later, or shorten it.", "no_memory"
            )
        case _:
            _logger.error("A request failed", exc_info=error)
            return ApiError(
                "The request failed inside the server; its log says why. Please report it.",
                status=HTTPStatus.INTERNAL_SERVER_ERROR,
                code="internal_error",
            )


def unavailable(message: str, code: str) -> ApiError:
    """Return the answer to what may be asked again later."""
    headers = (("retry-after", str(RETRY_AFTER_S)),)
    return ApiError(message, status=HTTPStatus.SERVICE_UNAVAILABLE, code=code, headers=headers)
