import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.server.api_error import ApiError
from sureact.server.request_body import ClientDisconnectedError, parse_body, read_body

JSON = [(b"content-type", b"application/json; charset=utf-8")]


def read(messages: Sequence[dict[str, Any]], headers: Sequence[tuple[bytes, bytes]] = JSON, limit: int = 10) -> bytes:
    rest = list(messages)

    async def receive() -> dict[str, Any]:
        return rest.pop(0)

    return asyncio.run(read_body({"headers": headers}, receive, limit))


def piece(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_comes_in_pieces() -> None:
    assert read([piece(b"{", more=True), piece(b"}")]) == b"{}"


@pytest.mark.parametrize(
    ("messages", "headers", "status"),
    [
        ([piece(b"123456", more=True), piece(b"78901")], JSON, 413),
        ([], [*JSON, (b"content-length", b"11")], 413),
        ([], [*JSON, (b"content-length", b"9" * 5000)], 413),
        ([piece(b"{}")], [(b"content-type", b"text/plain")], 415),
        ([piece(b"{}")], [], 415),
    ],
)
def test_a_body_that_is_too_large_or_no_json_is_not_read(messages: Any, headers: Any, status: int) -> None:
    with pytest.raises(ApiError) as refused:
        read(messages, headers)
    assert refused.value.status == status


def test_a_client_that_leaves_has_no_body() -> None:
    with pytest.raises(ClientDisconnectedError):
        read([piece(b"{", more=True), {"type": "http.disconnect"}])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"[]", "invalid_json"),
        (b"{", "invalid_json"),
        (b'{"a": \xff}', "invalid_json"),
        (b'{"a": NaN}', "invalid_json"),
        (b'{"a": -Infinity}', "invalid_json"),
        (b'{"a": 1e999}', "invalid_json"),
        (b'{"a": ' + b"9" * 5000 + b"}", "invalid_json"),
        (b'{"a": "\\ud800"}', "invalid_json"),
        (b'{"a": {"b": 1, "b": 2}}', "duplicate_key"),
        (b'{"a": ' + b"[" * 20 + b"]" * 20 + b"}", "json_too_deep"),
        (b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "json_too_deep"),
        (b"\xef\xbb\xbf{}", "invalid_json"),
    ],
)
def test_what_means_nothing_or_two_things_is_refused(body: bytes, code: str) -> None:
    with pytest.raises(ApiError) as refused:
        parse_body(body, max_depth=16)
    assert (refused.value.status, refused.value.code) == (400, code)


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert parse_body(b'{"a": "\\ud83d\\ude00"}', 8) == {"a": "😀"}


@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_refused(body: bytes) -> None:
    try:
        value = parse_body(body, max_depth=8)
    except ApiError:
        return
    assert json.loads(body) == value


def test_a_byte_order_mark_is_named() -> None:
    with pytest.raises(ApiError, match="begins with a byte order mark") as refused:
        parse_body('{"a": 1}'.encode("utf-8-sig"), 10)
    assert refused.value.code == "invalid_json"
