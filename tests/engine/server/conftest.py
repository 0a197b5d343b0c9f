"""A server over an engine that says what a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from tests.engine.conftest import CheckpointMaker
from tests.engine.server.http_servers import RunningServer
from tests.engine.server.scripted_engine import VOCAB_SIZE, ScriptedEngine, write_tokenizer

from sureact.async_engine import AsyncEngine
from sureact.server.app import create_app
from sureact.server.server_config import ServerConfig

T = TypeVar("T")


@pytest.fixture(scope="session")
def scripted_folder(make_checkpoint: CheckpointMaker) -> Path:
    """A tiny checkpoint with a tokenizer that has merges and the tags of calls and thoughts."""
    folder = make_checkpoint("qwen2", vocab_size=VOCAB_SIZE, max_position_embeddings=4096)
    write_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def loaded_engine(scripted_folder: Path) -> Iterator[ScriptedEngine]:
    """An engine over it, one for all tests."""
    with ScriptedEngine(str(scripted_folder), quantization="none", dtype="float32", kv_cache_gb=0.03) as engine:
        yield engine


@pytest.fixture
def engine(loaded_engine: ScriptedEngine) -> Iterator[ScriptedEngine]:
    """The engine, with no script at first and nothing running at the end."""
    yield loaded_engine
    loaded_engine.scripts = ()
    deadline = time.monotonic() + 20
    while loaded_engine.stats().num_running + loaded_engine.stats().num_waiting:
        assert time.monotonic() < deadline, "a request is left"
        time.sleep(0.01)


@dataclass
class Client:
    """Asks an application without a socket."""

    app: Any

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work)

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncGenerator[httpx.AsyncClient]:
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            yield client

    def get(self, path: str, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with self.connect() as client:
                return await client.get(path, **options)

        return self.run(ask())

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with self.connect() as client:
                if isinstance(body, bytes):
                    headers = {"content-type": "application/json", **options.get("headers", {})}
                    return await client.post(path, content=body, headers=headers)
                return await client.post(path, json=body, **options)

        return self.run(ask())

    def chat(self, content: str = "hi", **fields: Any) -> httpx.Response:
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], **fields})

    def answer(self, content: str = "hi", **fields: Any) -> dict[str, Any]:
        """The first choice of a chat that must succeed."""
        response = self.chat(content, **fields)
        assert response.status_code == 200, response.text
        return response.json()["choices"][0]

    def events(self, path: str, body: dict[str, Any]) -> list[Any]:
        """The events of a stream that must succeed, without the end mark."""
        response = self.post(path, {**body, "stream": True})
        assert response.status_code == 200, response.text
        return read_events(response.text)


def read_events(text: str) -> list[Any]:
    """Read a stream of events; it must end with the mark."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@pytest.fixture
def client(engine: ScriptedEngine) -> Client:
    """A client of a server with the default settings."""
    return Client(create_app(AsyncEngine.of(engine), ServerConfig(served_model_name="tiny")))


@contextlib.contextmanager
def listening(app: Any) -> Generator[str]:
    """Serve an application on a loopback port, and give its address."""
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not (server.started and app.state.serving.is_ready):
        assert time.monotonic() < deadline, "the server does not start"
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(20)
    listener.close()


@pytest.fixture
def served(engine: ScriptedEngine) -> Iterator[str]:
    """The address of a real server on a loopback port."""
    with listening(create_app(AsyncEngine.of(engine), ServerConfig(served_model_name="tiny"))) as address:
        yield address


@pytest.fixture
def run_server(engine: ScriptedEngine) -> Iterator[Callable[..., RunningServer]]:
    """Runs servers with the options given, as `sureact serve` would, and ends them."""
    servers: list[RunningServer] = []

    def run(**options: Any) -> RunningServer:
        servers.append(RunningServer(engine, **options))
        return servers[-1]

    yield run
    for server in servers:
        server.end()
