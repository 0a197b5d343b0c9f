import asyncio
import json
import threading
import time
from typing import Any

import httpx
import pytest
from tests.engine.server.scripted_engine import ScriptedEngine
from tests.engine.server.test_disconnects import LONG, NO_THOUGHT

from sureact.async_engine import AsyncEngine
from sureact.server import completions, endpoint, tokenize, turn_plan
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
