import asyncio

from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.async_engine import AsyncEngine
from sureact.server.app import create_app
from sureact.server.server_config import ServerConfig


def test_it_lives_before_it_is_ready(engine: ScriptedEngine) -> None:
    app = create_app(AsyncEngine.of(engine), ServerConfig())
    client = Client(app)
    assert client.get("/health").json() == {"status": "alive"}
    response = client.get("/ready")
    assert (response.status_code, response.json()) == (503, {"status": "not ready"})
    assert int(response.headers["retry-after"]) > 0
    asyncio.run(app.state.serving.warm_up())
    assert (client.get("/ready").status_code, client.get("/ready").json()) == (200, {"status": "ready"})
