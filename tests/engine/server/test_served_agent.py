"""A run on its thread: it ends when its client leaves, when its time is over and when the server ends."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.engine.server.agent_servers import FINISH, PATH, SaltedScript, add, step
from tests.engine.server.http_servers import RunningServer
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.server import served_agent
from sureact.server.agent_fields import AGENT_FIELDS
from sureact.server.request_fields import read_fields
from sureact.server.served_agent import ServedAgent

Run = Callable[..., RunningServer]
SMALL = {"max_thought_tokens": 900, "max_call_tokens": 60, "max_observation_tokens": 60, "max_output_tokens": 60}
ASK: dict[str, Any] = {"question": "?", "format": "fields"}


class Waiting:
    """Tools that wait until the test lets them go on."""

    def __init__(self) -> None:
        self.begun, self.may_end, self.cancelled = threading.Event(), threading.Event(), threading.Event()

    def wait(self) -> str:
        """Wait."""
        self.begun.set()
        assert self.may_end.wait(30)
        return "waited"

    async def await_it(self) -> str:
        """Wait on an event loop."""
        self.begun.set()
        try:
            while not self.may_end.is_set():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "waited"


@pytest.fixture
def waiting() -> Any:
    tools = Waiting()
    yield tools
    tools.may_end.set()


def ask(server: RunningServer, **fields: Any) -> socket.socket:
    """Send a request on a raw socket."""
    connection = server.connect()
    data = json.dumps({**ASK, **fields}).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    connection.sendall(head.encode() + b"\r\n\r\n" + data)
    return connection


def read_until(connection: socket.socket, mark: bytes) -> bytes:
    data = b""
    while mark not in data:
        piece = connection.recv(65536)
        assert piece, data
        data += piece
    return data


def wait_until(is_true: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.002)


def is_idle(server: RunningServer) -> bool:
    return server.serving.admission.num_entered == 0 and agents_running(server) == 0


def agents_running(server: RunningServer) -> float:
    return value(server, "sureact:agents_running")


def value(server: RunningServer, name: str, **labels: str) -> float:
    return server.serving.metrics.registry.get_sample_value(name, {"model_name": "tiny", **labels}) or 0.0


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_ends_the_run_within_a_step(
    run_server: Run, engine: ScriptedEngine, stream: bool, how: str
) -> None:
    server = run_server(tools=[add])
    engine.say(" ".join(map(str, range(1000))))
    before = engine.stats()
    connection = ask(server, **SMALL, stream=stream)
    wait_until(lambda: engine.stats().num_decode_steps > before.num_decode_steps + 5)
    assert agents_running(server) == 1
    if stream:
        read_until(connection, b"thought.delta")
    if how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    connection.close()
    wait_until(lambda: engine.stats().num_running == 0 and is_idle(server), 5)
    steps = engine.stats().num_steps
    time.sleep(0.1)
    assert engine.stats().num_steps == steps
    assert engine.stats().num_decode_steps - before.num_decode_steps < 850


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_tool_that_works_is_given_up_with_the_run(
    run_server: Run, waiting: Waiting, is_async: bool, stream: bool
) -> None:
    tool = waiting.await_it if is_async else waiting.wait
    server = run_server(tools=[tool])
    server.serving.lm = lm = SaltedScript([*step(tool.__name__), *FINISH])
    connection = ask(server, stream=stream)
    assert waiting.begun.wait(20)
    connection.close()
    wait_until(lambda: is_idle(server), 5)
    assert lm.sessions[0].is_closed
    assert lm.script, "no further step is taken"
    if is_async:
        assert waiting.cancelled.wait(5)


def test_a_hanging_tool_meets_its_time_limit_and_the_run_goes_on(run_server: Run, waiting: Waiting) -> None:
    server = run_server(tools=[waiting.wait], tool_timeout_s=0.1)
    server.serving.lm = SaltedScript([*step("wait"), *FINISH])
    with httpx.Client(base_url=server.address) as client:
        answer = client.post(PATH, json=ASK).json()
    first = answer["trajectory"][0]
    assert (first["outcome"], first["is_error"]) == ("timeout", True)
    assert "0.1 s" in first["observation"]
    assert answer["termination_reason"] == "finish"


def test_a_run_meets_the_time_limit_of_requests(run_server: Run, waiting: Waiting) -> None:
    server = run_server(tools=[waiting.wait], request_timeout_s=0.5)
    script = [*step("wait"), *FINISH]
    with httpx.Client(base_url=server.address) as client:
        server.serving.lm = SaltedScript(script)
        refused = client.post(PATH, json=ASK)
        assert (refused.status_code, refused.json()["error"]["code"]) == (504, "request_timeout")
        server.serving.lm = SaltedScript(script)
        told = client.post(PATH, json={**ASK, "stream": True}).text
    event = json.loads(told.split("event: error\ndata: ")[1].partition("\n")[0])
    assert (event["type"], event["error"]["code"]) == ("error", "request_timeout")
    assert told.endswith("data: [DONE]\n\n")
    wait_until(lambda: is_idle(server), 5)


def test_silence_while_a_tool_works_is_broken_by_comments(run_server: Run, waiting: Waiting) -> None:
    server = run_server(tools=[waiting.wait], keep_alive_s=0.05)
    server.serving.lm = SaltedScript([*step("wait"), *FINISH])
    connection = ask(server, stream=True)
    read_until(connection, b"call.started")
    assert b"data:" not in read_until(connection, b": keep-alive\n\n").replace(b"step.completed", b"")
    waiting.may_end.set()
    assert b"run.completed" in read_until(connection, b"[DONE]")
    connection.close()


def test_a_server_that_ends_waits_for_its_runs(run_server: Run, waiting: Waiting) -> None:
    server = run_server(tools=[waiting.wait])
    server.serving.lm = SaltedScript([*step("wait"), *FINISH])
    connection = ask(server, stream=True)
    assert waiting.begun.wait(20)
    server.server.handle_exit(signal.SIGTERM, None)
    time.sleep(0.3)
    assert not server.has_ended
    waiting.may_end.set()
    assert b"run.completed" in read_until(connection, b"[DONE]")
    connection.close()
    server.join(20)


def test_a_run_that_does_not_end_in_time_is_ended_by_the_server(run_server: Run, waiting: Waiting) -> None:
    server = run_server(tools=[waiting.wait], drain_timeout_s=0.2)
    server.serving.lm = SaltedScript([*step("wait"), *FINISH])
    connection = ask(server, stream=True)
    assert waiting.begun.wait(20)
    server.server.handle_exit(signal.SIGTERM, None)
    assert b"shutting_down" in read_until(connection, b"[DONE]")
    connection.close()
    server.join(20)


def test_runs_leave_places_for_others(run_server: Run, waiting: Waiting) -> None:
    server = run_server(tools=[waiting.wait], max_running=2)
    server.serving.lm = SaltedScript([*step("wait"), *FINISH])
    first = ask(server)
    assert waiting.begun.wait(20)
    second = ask(server)
    wait_until(lambda: server.serving.admission.num_waiting == 1)
    with httpx.Client(base_url=server.address) as client:
        text = client.post("/v1/completions", json={"prompt": "hi", "max_tokens": 2})
        assert text.status_code == 200
    assert server.serving.admission.num_waiting == 1
    server.serving.lm = SaltedScript(FINISH)
    waiting.may_end.set()
    for connection in (first, second):
        assert b'"termination_reason": "finish"' in read_until(connection, b'"usage"')
        connection.close()


def test_runs_at_once_are_what_they_are_alone(run_server: Run, engine: ScriptedEngine) -> None:
    server = run_server(tools=[add], max_running=8)
    body = {**ASK, "max_iters": 2, **SMALL, "max_thought_tokens": 20}
    answers: dict[int, Any] = {}

    def run(index: int) -> None:
        with httpx.Client(base_url=server.address, timeout=120) as client:
            answers[index] = client.post(PATH, json={**body, "question": f"Number {index % 3}?"}).json()

    def what(index: int) -> Any:
        return answers[index]["outputs"], [s["thought"] for s in answers[index]["trajectory"]]

    threads = [threading.Thread(target=run, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for index in range(3):
        assert what(index) == what(index + 3)
        run(index + 9)
        assert what(index) == what(index + 9)
    usages = [answer["usage"] for answer in answers.values()]
    assert answers[9]["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert value(server, "vllm:generation_tokens_total") == sum(usage["completion_tokens"] for usage in usages)
    assert value(server, "vllm:time_to_first_token_seconds_count") == sum(usage["num_generations"] for usage in usages)
    wait_until(lambda: is_idle(server), 5)


def test_runs_are_in_the_metrics_and_in_the_log(
    run_server: Run, waiting: Waiting, caplog: pytest.LogCaptureFixture
) -> None:
    server = run_server(tools=[add, waiting.wait])
    server.serving.lm = SaltedScript([*step("add", a=1), *step("wait"), *FINISH])
    connection = ask(server)
    assert waiting.begun.wait(20)
    assert (agents_running(server), value(server, "sureact:tool_seconds_count")) == (1, 1)
    with caplog.at_level("INFO", "sureact.requests"):
        waiting.may_end.set()
        answer = read_until(connection, b'"num_generations"').decode()
        wait_until(lambda: is_idle(server), 5)
        wait_until(lambda: bool(caplog.records), 5)
    connection.close()
    assert (agents_running(server), value(server, "sureact:tool_seconds_count")) == (0, 2)
    assert value(server, "vllm:request_success_total", finished_reason="stop") == 7
    entry = json.loads(caplog.records[-1].getMessage())
    assert (entry["path"], entry["status"], len(entry["finish_reasons"])) == (PATH, 200, 7)
    assert f'"prompt_tokens": {entry["prompt_tokens"]}' in answer
    assert "question" not in str(entry)


def test_a_run_waits_for_a_client_that_reads_slowly_and_can_be_ended_meanwhile(
    run_server: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_agent, "_MAX_EVENTS_AHEAD", 4)
    server = run_server(tools=[add])
    server.serving.lm = lm = SaltedScript([*step("add", a=1), *FINISH])
    agent = ServedAgent(server.serving, read_fields(ASK, AGENT_FIELDS), None)
    told: list[Any] = []

    async def main() -> None:
        begun = asyncio.Event()

        async def tell(event: Any) -> None:
            told.append(event)
            begun.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(agent.run(tell))
        await begun.wait()
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [event["type"] for event in told] == ["run.started"]
    assert lm.script == FINISH, "the run does not go on"
    assert agents_running(server) == 0
