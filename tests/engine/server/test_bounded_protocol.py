import json
import socket
import time
from collections.abc import Callable

import pytest
from tests.engine.server.http_servers import RunningServer

Run = Callable[..., RunningServer]
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST_OF_TEXT = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
"""Is refused without a look at its body."""
MANY_LONG_ANSWERS = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 150


def read_refusal(connection: socket.socket) -> tuple[int, str]:
    """Read until the server closes; return status and code of the error."""
    data = b""
    while piece := connection.recv(65536):
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def is_alive(connection: socket.socket) -> bool:
    """Whether a request whose head is whole is answered."""
    return read_answer(connection).startswith(b"HTTP/1.1 200")


def read_answer(connection: socket.socket) -> bytes:
    """Read an answer of JSON."""
    data = b""
    while not data.endswith(b"}") and (piece := connection.recv(65536)):
        data += piece
    return data


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


def test_a_body_that_drips_behind_its_answer_is_not_waited_for(run_server: Run) -> None:
    with run_server(read_timeout_s=0.4).connect() as connection:
        connection.sendall(POST_OF_TEXT + b"Content-Length: 1000000000\r\n\r\n")
        assert read_answer(connection).startswith(b"HTTP/1.1 415")
        start = time.monotonic()
        try:
            while time.monotonic() - start < 5:
                connection.sendall(b" ")
                time.sleep(0.05)
        except OSError:
            pass
        assert time.monotonic() - start < 3


def test_a_chunked_body_without_an_end_is_not_waited_for(run_server: Run) -> None:
    with run_server(read_timeout_s=0.4).connect() as connection:
        connection.sendall(POST_OF_TEXT + b"Transfer-Encoding: chunked\r\n\r\n")
        assert read_answer(connection).startswith(b"HTTP/1.1 415")
        start = time.monotonic()
        try:
            while time.monotonic() - start < 5:
                connection.sendall(b"1\r\na\r\n")
                time.sleep(0.05)
        except OSError:
            pass
        assert time.monotonic() - start < 3


def test_a_body_that_comes_behind_its_answer_keeps_the_connection(run_server: Run) -> None:
    with run_server(read_timeout_s=5).connect() as connection:
        for _ in range(2):
            connection.sendall(POST_OF_TEXT + b"Content-Length: 10\r\n\r\n")
            assert read_answer(connection).startswith(b"HTTP/1.1 415")
            connection.sendall(b"x" * 10)
            connection.sendall(GET + b"\r\n")
            assert is_alive(connection)


def connect_with_small_window(server: RunningServer) -> socket.socket:
    connection = socket.socket()
    connection.settimeout(20)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    return connection


def test_a_client_that_takes_no_answer_is_cut_off(run_server: Run) -> None:
    server = run_server(read_timeout_s=0.5)
    state = server.server.server_state
    connections = [connect_with_small_window(server) for _ in range(2)]
    for connection in connections:
        connection.sendall(MANY_LONG_ANSWERS)
    deadline = time.monotonic() + 20
    while state.total_requests == 0 or state.connections or state.tasks:
        assert time.monotonic() < deadline, "a connection, or what answers it, is left"
        time.sleep(0.02)
    for connection in connections:
        connection.close()


def test_a_client_that_takes_its_answers_slowly_gets_them_all(run_server: Run) -> None:
    server = run_server(read_timeout_s=1)
    with connect_with_small_window(server) as connection:
        connection.sendall(MANY_LONG_ANSWERS + GET + b"Connection: close\r\n\r\n")
        start, data = time.monotonic(), b""
        while piece := connection.recv(65536):
            data += piece
            time.sleep(0.005 if time.monotonic() - start < 3 else 0)
        assert data.count(b"HTTP/1.1 200") == 151


def test_what_a_client_does_not_take_ends_a_connection_that_is_to_be_closed(run_server: Run) -> None:
    server = run_server(read_timeout_s=0.5)
    connection = connect_with_small_window(server)
    connection.sendall(GET + b"\r\n")
    assert is_alive(connection)
    (protocol,) = server.server.server_state.connections

    def fill_and_close() -> None:
        while not protocol.transport.get_write_buffer_size():
            protocol.transport.write(b"a" * 4096)
        assert protocol.transport.get_write_buffer_size() < 65536, "less than what pauses by default"
        protocol.transport.close()

    protocol.loop.call_soon_threadsafe(fill_and_close)
    deadline = time.monotonic() + 20
    while server.server.server_state.connections:
        assert time.monotonic() < deadline, "the connection is left"
        time.sleep(0.02)
    connection.close()


def test_a_head_that_is_too_long_is_refused(run_server: Run, caplog: pytest.LogCaptureFixture) -> None:
    server = run_server(max_head_bytes=4096)
    for rest in (b"", b"\r\n\r\n"):  # a part that is too long, and a whole one that comes in one read
        for num_bytes in (4096, 8000, 100_000):
            with server.connect() as connection:
                connection.sendall(GET + b"X-Long: " + b"a" * num_bytes + rest)
                assert read_refusal(connection) == (431, "head_too_large")
    with server.connect() as connection:
        connection.sendall(b"GET /health?" + b"a" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_refusal(connection) == (431, "head_too_large")
    with server.connect() as connection:
        connection.sendall(GET + b"X-Long: " + b"a" * 3900 + b"\r\n\r\n")
        assert is_alive(connection)
        connection.sendall(GET + b"X-Long: " + b"a" * 5000 + b"\r\n\r\n")
        assert read_refusal(connection) == (431, "head_too_large")
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_an_upgrade_is_ignored_without_a_word(run_server: Run, caplog: pytest.LogCaptureFixture) -> None:
    with run_server().connect() as connection:
        connection.sendall(GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert is_alive(connection)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


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
        answer = read_answer(third)
        assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"\r\nretry-after: 5\r\n" in answer
        assert b'"code": "overloaded"' in answer
    kept.pop().close()
    time.sleep(0.1)
    with server.connect() as connection:
        connection.sendall(GET + b"\r\n")
        assert is_alive(connection)
    kept.pop().close()
