import asyncio
import json
from typing import Any

import pytest
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.async_engine import AsyncEngine
from sureact.server.endpoint import Endpoint, Exchange, run_while_connected
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
