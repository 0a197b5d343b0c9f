"""A client that leaves takes its request with it, within a step, whatever it was waiting for."""

import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.engine.server.http_servers import RunningServer
from tests.engine.server.scripted_engine import ScriptedEngine
from tests.engine.server.test_chat_turn import CALL, TOOLS

from sureact.agent.further_call import FurtherCall
from sureact.sampling_params import SamplingParams
from sureact.session import Session

LONG = {
    "messages": [{"role": "user", "content": "hi"}],
    "ignore_eos": True,
    "max_tokens": 3500,
    "temperature": 1,
    "seed": 1,
}
NO_THOUGHT = {"chat_template_kwargs": {"enable_thinking": False}}


def ask(address: str, path: str, body: dict[str, Any]) -> socket.socket:
    """Send a request on a raw socket."""
    host, port = address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    connection.sendall(head.encode() + data)
    return connection


def wait_for(is_true: Callable[[], bool], seconds: float) -> float:
    start = time.monotonic()
    while not is_true():
        assert time.monotonic() - start < seconds, "it does not come true"
        time.sleep(0.002)
    return time.monotonic() - start


def leave(connection: socket.socket, *, how: str) -> None:
    if how == "reset":  # without a word, as a killed process does
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    connection.close()


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("when", ["at once", "while it runs"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses"])
def test_a_client_that_leaves_ends_its_request(
    served: str, engine: ScriptedEngine, path: str, when: str, stream: bool, how: str
) -> None:
    stats = engine.stats()
    body: dict[str, Any] = {**LONG, "stream": stream}
    if path == "/v1/completions":
        del body["messages"]
        body["prompt"] = "hi"
    elif path == "/v1/responses":
        body |= NO_THOUGHT | {"input": body.pop("messages"), "max_output_tokens": body.pop("max_tokens")}
    else:
        body |= NO_THOUGHT
    connection = ask(served, path, body)
    if when == "while it runs":
        wait_for(lambda: engine.stats().num_running == 1, 20)
        if stream:
            assert connection.recv(20)
    leave(connection, how=how)
    wait_for(lambda: engine.stats().num_running + engine.stats().num_waiting == 0, 5)
    time.sleep(0.05)
    assert engine.stats().num_running + engine.stats().num_waiting == 0
    assert engine.stats().generated_tokens - stats.generated_tokens < 3000
    assert engine.stats().kv_blocks_used <= stats.kv_blocks_used + 60


def test_it_ends_within_a_step(served: str, engine: ScriptedEngine) -> None:
    connection = ask(served, "/v1/chat/completions", {**LONG, **NO_THOUGHT})
    wait_for(lambda: engine.stats().num_running == 1, 20)
    wait_for(lambda: engine.stats().num_decode_steps > 0, 20)
    leave(connection, how="close")
    time.sleep(0.2)
    before = engine.stats().num_steps
    time.sleep(0.1)
    assert engine.stats().num_steps == before


def test_all_answers_of_a_request_end_with_it(served: str, engine: ScriptedEngine) -> None:
    connection = ask(served, "/v1/chat/completions", {**LONG, **NO_THOUGHT, "n": 4})
    wait_for(lambda: engine.stats().num_running == 4, 20)
    leave(connection, how="close")
    wait_for(lambda: engine.stats().num_running == 0, 5)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("place", ["after its own calls", "after the same calls without a cause"])
def test_weighing_a_further_call_ends_with_its_client(
    served: str, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, place: str, stream: bool
) -> None:
    weighed: list[Session] = []

    def weigh(self: FurtherCall, session: Session) -> float:
        weighed.append(session)
        if len(weighed) == ["after its own calls", "after the same calls without a cause"].index(place) + 1:
            session.generate(SamplingParams(max_tokens=3000, ignore_eos=True))
        return -9.0

    monkeypatch.setattr(FurtherCall, "_log_odds", weigh)
    engine.say(CALL)
    connection = ask(served, "/v1/chat/completions", {"messages": LONG["messages"], "tools": TOOLS, "stream": stream})
    wait_for(lambda: bool(weighed) and engine.stats().num_running == 1 and len(weighed[-1]) > 100, 20)
    before = engine.stats()
    leave(connection, how="close")
    wait_for(lambda: engine.stats().num_running + engine.stats().num_waiting == 0, 5)
    time.sleep(0.05)
    assert engine.stats().num_running + engine.stats().num_waiting == 0
    assert engine.stats().generated_tokens - before.generated_tokens < 2500


def test_a_client_that_leaves_while_it_sends_has_no_request(served: str, engine: ScriptedEngine) -> None:
    before = engine.stats().num_requests
    host, port = served.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    connection.sendall(
        b"POST /v1/completions HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    )
    time.sleep(0.05)
    connection.close()
    time.sleep(0.1)
    assert engine.stats().num_requests == before
    again = ask(served, "/v1/completions", {"prompt": "hi", "max_tokens": 2})
    assert again.recv(15).startswith(b"HTTP/1.1 200")
    again.close()


def test_a_client_that_takes_nothing_of_its_stream_has_left(
    run_server: Callable[..., RunningServer], engine: ScriptedEngine
) -> None:
    server = run_server(read_timeout_s=0.3)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    wordy = {"stream": True, "logprobs": True, "top_logprobs": 20, "n": 4}
    data = json.dumps({**LONG, **NO_THOUGHT, **wordy}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(data) + data)
    wait_for(lambda: engine.stats().num_running > 0, 20)
    wait_for(lambda: server.serving.admission.num_entered == 0, 60)
    assert engine.stats().num_running == 0
    connection.settimeout(20)
    taken = b""
    while piece := connection.recv(1 << 20):
        taken += piece
    assert b"[DONE]" not in taken
    connection.close()


def test_the_others_go_on(served: str, engine: ScriptedEngine) -> None:
    body = {"prompt": "hi", "max_tokens": 200, "ignore_eos": True}
    alone = ask(served, "/v1/completions", body)
    expected = read_answer(alone)
    leaving = ask(served, "/v1/chat/completions", {**LONG, **NO_THOUGHT})
    staying = ask(served, "/v1/completions", body)
    wait_for(lambda: engine.stats().num_running == 2, 20)
    leave(leaving, how="reset")
    assert read_answer(staying)["choices"] == expected["choices"]


def read_answer(connection: socket.socket) -> dict[str, Any]:
    data = b""
    while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < length_of(data):
        piece = connection.recv(65536)
        assert piece, "the answer broke off"
        data += piece
    connection.close()
    return json.loads(data.partition(b"\r\n\r\n")[2])


def length_of(data: bytes) -> int:
    head = data.partition(b"\r\n\r\n")[0].lower()
    return int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
