import json
import logging

import pytest

from sureact.errors import (
    ConfigError,
    ConstraintCompileError,
    InternalError,
    OutOfMemoryError,
    PromptTooLongError,
    RequestAbortedError,
    SureactError,
    UnsupportedSchemaError,
)
from sureact.server.api_error import ApiError, api_error_of


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (ConfigError("x is 3"), 400, "invalid_request_error", "invalid_value"),
        (PromptTooLongError("long"), 400, "invalid_request_error", "context_length_exceeded"),
        (ConstraintCompileError("bad"), 400, "invalid_request_error", "invalid_constraint"),
        (UnsupportedSchemaError("bad", keyword="k", pointer="/k"), 400, "invalid_request_error", "unsupported_schema"),
        (RequestAbortedError("closed"), 503, "server_error", "engine_closed"),
        (OutOfMemoryError("none"), 503, "server_error", "no_memory"),
        (InternalError("/opt/sureact/x.py broke"), 500, "server_error", "internal_error"),
        (KeyError("/opt/sureact"), 500, "server_error", "internal_error"),
    ],
)
def test_errors_become_answers(error: Exception, status: int, kind: str, code: str) -> None:
    answer = api_error_of(error, param="messages")
    told = json.loads(answer.body_bytes)["error"]
    assert (answer.status, told["type"], told["code"]) == (status, kind, code)
    assert "/opt" not in told["message"]
    assert told["param"] == ("messages" if status == 400 else None)


def test_a_schema_error_tells_the_pointer() -> None:
    error = UnsupportedSchemaError("bad", keyword="k", pointer="/properties/a/k")
    assert api_error_of(error).body["error"]["pointer"] == "/properties/a/k"


def test_an_answer_stays_what_it_is() -> None:
    error = ApiError("no", status=429, code="busy")
    assert api_error_of(error) is error
    assert error.type == "rate_limit_error"
    assert isinstance(error, SureactError)


def test_what_goes_wrong_inside_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        api_error_of(ZeroDivisionError("secret"))
    assert caplog.records[-1].exc_info is not None
