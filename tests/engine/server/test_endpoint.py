import asyncio
import json
import threading
import time
from typing import Any

import httpx
import pytest
from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine
from tests.engine.server.test_disconnects import LONG, NO_THOUGHT

from sureact.async_engine import AsyncEngine
from sureact.server import completions, endpoint, tokenize, turn_plan
from sureact.server.app import create_app
from sureact.server.endpoint import Endpoint, Exchange, run_while_connected
from sureact.server.off_loop import LARGE_BYTES
from sureact.server.request_body import ClientDisconnectedError
from sureact.server.server_config import ServerConfig
from sureact.server.serving import Serving


async def never() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def gone() -> dict[str, Any]:
    await asyncio.sleep(0.01)
    return {"type": "http.disconnect"}


def test_work_ends_when_the_client_leaves() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")

    with pytest.raises(ClientDisconnectedError):
        asyncio.run(run_while_connected(gone, work()))
    assert ended == ["cancelled"]


def test_work_that_fails_tells_its_error() -> None:
    async def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run_while_connected(never, work()))


def test_whatever_goes_wrong_is_answered_as_json(engine: ScriptedEngine) -> None:
    sent: list[dict[str, Any]] = []

    async def fail(serving: Serving, exchange: Exchange) -> None:
        raise ZeroDivisionError("in /opt/secret.py")

    async def send(message: Any) -> None:
        sent.append(message)

    serving = Serving(AsyncEngine.of(engine), ServerConfig())
    asyncio.run(Endpoint(serving, fail, has_body=False)({"headers": []}, never, send))
    assert sent[0]["status"] == 500
    told = json.loads(sent[1]["body"])["error"]
    assert told["code"] == "internal_error"
    assert "secret" not in told["message"]


def test_an_answer_that_broke_off_is_not_ended(engine: ScriptedEngine) -> None:
    async def fail(serving: Serving, exchange: Exchange) -> None:
        await exchange.begin(200, ())
        raise ZeroDivisionError

    async def send(message: Any) -> None:
        assert message["type"] == "http.response.start"

    serving = Serving(AsyncEngine.of(engine), ServerConfig())
    with pytest.raises(ConnectionAbortedError):
        asyncio.run(Endpoint(serving, fail, has_body=False)({"headers": []}, never, send))


CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
LARGE_CHAT = {**CHAT, "metadata": {"padding": "x" * LARGE_BYTES}}


@pytest.mark.parametrize(
    ("place", "path", "body"),
    [
        ((endpoint, "parse_body"), "/v1/chat/completions", LARGE_CHAT),
        ((endpoint, "check_constraint_cost"), "/v1/chat/completions", LARGE_CHAT),
        ((endpoint, "read_fields"), "/v1/chat/completions", LARGE_CHAT),
        ((turn_plan, "render_chat_prompt"), "/v1/chat/completions", CHAT),
        ((turn_plan, "max_tokens"), "/v1/chat/completions", CHAT),
        ((completions, "sampling_params"), "/v1/completions", {"prompt": "a", "max_tokens": 1}),
        ((tokenize, "render_chat_prompt"), "/tokenize", {"messages": CHAT["messages"]}),
        ((tokenize, "json_bytes"), "/tokenize", {"prompt": "a"}),
        ((tokenize, "json_bytes"), "/detokenize", {"tokens": [1]}),
    ],
)
def test_what_takes_its_time_does_not_hold_up_the_streams_of_others(
    served: str, monkeypatch: pytest.MonkeyPatch, place: tuple[Any, str], path: str, body: dict[str, Any]
) -> None:
    """Part of the other request's work waits for events of a stream, which come only if it is not done on the loop."""
    num_events, answers = 0, list[httpx.Response]()
    do, caller = getattr(*place), threading.Thread(target=lambda: answers.append(httpx.post(served + path, json=body)))

    def wait_for_events(*args: Any, **options: Any) -> Any:
        until, deadline = num_events + 10, time.monotonic() + 20
        while num_events < until:
            assert time.monotonic() < deadline, "the stream stands still"
            time.sleep(0.001)
        return do(*args, **options)

    with httpx.stream("POST", served + "/v1/chat/completions", json={**LONG, **NO_THOUGHT, "stream": True}) as stream:
        for line in stream.iter_lines():
            num_events += line.startswith("data: ")
            if num_events == 1 and not caller.ident:
                monkeypatch.setattr(*place, wait_for_events)
                caller.start()
            if answers:
                break
    assert answers[0].status_code == 200, answers[0].text
    caller.join()


STREAMS: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/chat/completions", {"messages": CHAT["messages"], "max_tokens": 1}, "data: [DONE]"),
    ("/v1/completions", {"prompt": "hi", "max_tokens": 1}, "data: [DONE]"),
    ("/v1/responses", {"input": "hi", "max_output_tokens": 1}, "event: response.incomplete"),
]
REFUSED = [*((path, {**body, "user": 3}) for path, body, _ in STREAMS), ("/v1/agents/run", {"question": " "})]


def add(a: int, b: int) -> int:
    """Add numbers."""
    return a + b


def ask_behind_another(engine: ScriptedEngine, path: str, body: dict[str, Any], **options: Any) -> httpx.Response:
    """Ask a server whose one place is taken for a while."""
    app = create_app(AsyncEngine.of(engine), ServerConfig(max_running=1, **options), [add])
    admission = app.state.serving.admission

    async def main() -> httpx.Response:
        other = admission.enter(None)
        await admission.turn_of(other)
        async with Client(app).connect() as client:
            asked = asyncio.ensure_future(client.post(path, json={"stream": True, **body}))
            await asyncio.sleep(0.4)
            other.leave()
            return await asked

    return asyncio.run(main())


@pytest.mark.parametrize(("path", "body", "end"), STREAMS)
def test_a_stream_that_waits_for_its_turn_is_kept_alive(
    engine: ScriptedEngine, path: str, body: dict[str, Any], end: str
) -> None:
    response = ask_behind_another(engine, path, body, keep_alive_s=0.05)
    assert response.status_code == 200
    assert response.text.startswith(": keep-alive\n\n: keep-alive\n\n")
    assert end in response.text
    assert '"error": {' not in response.text


@pytest.mark.parametrize(("path", "body"), REFUSED)
def test_an_error_after_the_wait_is_an_event(engine: ScriptedEngine, path: str, body: dict[str, Any]) -> None:
    text = ask_behind_another(engine, path, body, keep_alive_s=0.05).text
    (told,) = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    assert (told if path == "/v1/responses" else told["error"])["code"] == "invalid_value"
    assert ("event: error\n" in text) == (told.get("type") == "error") == (path in ("/v1/responses", "/v1/agents/run"))
    assert text.endswith("data: [DONE]\n\n") == (path != "/v1/responses")


@pytest.mark.parametrize(("path", "body", "end"), STREAMS)
def test_a_wait_that_is_too_long_is_told(engine: ScriptedEngine, path: str, body: dict[str, Any], end: str) -> None:
    response = ask_behind_another(engine, path, body, keep_alive_s=0.05, queue_timeout_s=0.2)
    assert (response.status_code, '"code": "queue_timeout"' in response.text) == (200, True)
    for options in ({"keep_alive_s": 10}, {"keep_alive_s": 0.05, "stream": False}):
        asked = {**body, "stream": options.pop("stream", True)}
        response = ask_behind_another(engine, path, asked, queue_timeout_s=0.2, **options)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "queue_timeout")
