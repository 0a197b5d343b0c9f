import json
import socket
import time
from collections.abc import Callable

import pytest
from tests.engine.server.http_servers import RunningServer

Run = Callable[..., RunningServer]
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


def read_refusal(connection: socket.socket) -> tuple[int, str]:
    """Read until the server closes; return status and code of the error."""
    data = b""
    while piece := connection.recv(65536):
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def is_alive(connection: socket.socket) -> bool:
    """Whether a request whose head is whole is answered."""
    data = b""
    while not data.endswith(b"}"):
        piece = connection.recv(65536)
        if not piece:
            return False
        data += piece
    return data.startswith(b"HTTP/1.1 200")


def test_a_head_that_does_not_come_is_not_waited_for(run_server: Run) -> None:
    server = run_server(read_timeout_s=0.3)
    for sent in (b"", b"GET /he", GET):
        with server.connect() as connection:
            connection.sendall(sent)
            assert read_refusal(connection) == (408, "read_timeout")


def test_a_head_that_drips_is_not_waited_for(run_server: Run) -> None:
    with run_server(read_timeout_s=0.4).connect() as connection:
        start = time.monotonic()
        try:
            while time.monotonic() - start < 5:
                connection.sendall(b"G")
                time.sleep(0.05)
        except OSError:
            pass
        assert time.monotonic() - start < 3


def test_the_head_of_a_second_request_is_watched_too(run_server: Run) -> None:
    with run_server(read_timeout_s=0.4).connect() as connection:
        connection.sendall(GET + b"\r\n")
        assert is_alive(connection)
        connection.sendall(b"GET /he")
        assert read_refusal(connection) == (408, "read_timeout")


def test_idle_connections_and_whole_requests_are_left_alone(run_server: Run) -> None:
    with run_server(read_timeout_s=0.2).connect() as connection:
        for _ in range(2):
            connection.sendall(GET + b"\r\n")
            assert is_alive(connection)
            time.sleep(0.5)


def test_a_body_that_does_not_come_is_not_waited_for(run_server: Run) -> None:
    with run_server(read_timeout_s=0.3).connect() as connection:
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
        )
        assert read_refusal(connection) == (408, "read_timeout")


def test_a_head_that_is_too_long_is_refused(run_server: Run) -> None:
    with run_server(max_head_bytes=4096).connect() as connection:
        connection.sendall(GET + b"X-Long: " + b"a" * 8000)
        assert read_refusal(connection) == (431, "head_too_large")


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01 hello\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"\r\n\x00\r\n\r\n"]
)
def test_what_is_no_http_is_refused(run_server: Run, sent: bytes) -> None:
    with run_server().connect() as connection:
        connection.sendall(sent)
        assert read_refusal(connection) == (400, "invalid_http")


def test_connections_are_limited(run_server: Run) -> None:
    server = run_server(max_connections=2)
    kept = [server.connect() for _ in range(2)]
    for connection in kept:
        connection.sendall(GET + b"\r\n")
        assert is_alive(connection)
    with server.connect() as third:
        assert read_refusal(third) == (503, "overloaded")
    kept.pop().close()
    time.sleep(0.1)
    with server.connect() as connection:
        connection.sendall(GET + b"\r\n")
        assert is_alive(connection)
    kept.pop().close()
