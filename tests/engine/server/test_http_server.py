import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.engine.server.http_servers import RunningServer
from tests.engine.server.scripted_engine import ScriptedEngine
from typing_extensions import override

Run = Callable[..., RunningServer]
LONG: dict[str, Any] = {"prompt": "hi", "ignore_eos": True, "temperature": 1, "seed": 1}


def ask(server: RunningServer, **fields: Any) -> socket.socket:
    """Ask for a text that takes a while."""
    connection = server.connect()
    data = json.dumps({**LONG, **fields}).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    )
    connection.sendall(head.encode() + b"\r\n\r\n" + data)
    return connection


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while piece := connection.recv(65536):
        data += piece
    connection.close()
    return data


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.005)


def test_running_requests_end_before_the_server_does(run_server: Run, engine: ScriptedEngine) -> None:
    server = run_server()
    running = ask(server, max_tokens=1500, stream=True)
    wait_until(lambda: engine.stats().num_running == 1)
    server.server.handle_exit(signal.SIGTERM, None)
    with httpx.Client(base_url=server.address) as client:
        assert client.get("/ready").status_code == 503
        assert client.get("/health").status_code == 200
        refused = client.post("/v1/completions", json={"prompt": "hi"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        assert refused.headers["retry-after"]
    answer = read_all(running)
    assert b"data: [DONE]" in answer
    assert b"shutting_down" not in answer
    server.join(20)


@pytest.mark.parametrize("stream", [True, False])
def test_what_does_not_end_in_time_is_ended(run_server: Run, engine: ScriptedEngine, stream: bool) -> None:
    server = run_server(drain_timeout_s=0.2)
    running = ask(server, max_tokens=3800, stream=stream)
    wait_until(lambda: engine.stats().num_running == 1)
    server.server.handle_exit(signal.SIGTERM, None)
    answer = read_all(running)
    assert b'"code": "shutting_down"' in answer
    assert answer.startswith(b"HTTP/1.1 200" if stream else b"HTTP/1.1 503")
    server.join(20)
    assert engine.stats().num_running == 0


def test_a_second_signal_does_not_wait(run_server: Run, engine: ScriptedEngine) -> None:
    server = run_server()
    running = ask(server, max_tokens=3800)
    wait_until(lambda: engine.stats().num_running == 1)
    server.server.handle_exit(signal.SIGINT, None)
    server.server.handle_exit(signal.SIGINT, None)
    assert b"shutting_down" in read_all(running)
    server.join(20)


def test_a_server_with_nothing_to_do_ends_at_once(run_server: Run) -> None:
    server = run_server()
    server.server.handle_exit(signal.SIGTERM, None)
    server.join(5)


def test_a_hundred_megabytes_are_refused_before_they_are_read(run_server: Run) -> None:
    server = run_server()
    with server.connect() as connection:
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(head + b"Content-Length: 104857600\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")
    with server.connect() as connection:  # of unknown length
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        connection.setblocking(False)
        answer, sent, pending = b"", 0, chunk
        deadline = time.monotonic() + 20
        while not answer and time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                pending = pending[connection.send(pending) :]
            if not pending:
                sent, pending = sent + 1, chunk
            with contextlib.suppress(BlockingIOError):
                answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 413")
        assert sent < 100


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
@pytest.mark.parametrize("is_terminal", [False, True])
def test_without_keys_a_hangup_ends_no_service(
    run_server: Run, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    before = signal.getsignal(signal.SIGHUP)
    monkeypatch.setattr(sys, "stderr", TextOf(is_terminal))
    try:
        run_server().server.handle_hangup()
        assert signal.getsignal(signal.SIGHUP) == (before if is_terminal else signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGHUP, before)


class TextOf(io.StringIO):
    """Standard error on a terminal, or not."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    @override
    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.slow
def test_the_command_ends_with_0_at_sigterm(scripted_folder: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("a:first-key-of-many-1\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "sureact.cli.main", "serve", "--model", str(scripted_folder), "--port", str(port)]
    options = ["--api-keys", str(keys), "--quantization", "none", "--dtype", "float32", "--kv-cache-gb", "0.03"]
    process = subprocess.Popen([*command, *options], env=os.environ, stderr=subprocess.PIPE, text=True)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            wait_until_ready(client, process)
            ask_with = {"authorization": "Bearer second-key-of-many-2"}
            assert client.get("/v1/models", headers=ask_with).status_code == 401
            keys.write_text("a:second-key-of-many-2\n")
            process.send_signal(signal.SIGHUP)
            time.sleep(0.2)
            assert client.get("/v1/models", headers=ask_with).status_code == 200
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    logged = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    assert [line["status"] for line in logged if line.get("path") == "/v1/models"] == [401, 200]


def wait_until_ready(client: httpx.Client, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300  # it imports torch, beside whatever else the machine does
    while True:
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < deadline, "the server does not start"
        try:
            if client.get("/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
