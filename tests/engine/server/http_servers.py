"""Servers as `sureact serve` runs them, on loopback ports, in threads of the test."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterable
from typing import Any

from sureact.agent.tool import ToolLike
from sureact.async_engine import AsyncEngine
from sureact.engine import Engine
from sureact.server.app import create_app
from sureact.server.http_server import HttpServer
from sureact.server.server_config import ServerConfig
from sureact.server.serving import Serving


class RunningServer:
    """A server that is ready when this is made."""

    def __init__(self, engine: Engine, tools: Iterable[ToolLike] = (), **options: Any) -> None:
        app = create_app(AsyncEngine.of(engine), ServerConfig(port=0, served_model_name="tiny", **options), tools)
        self.serving: Serving = app.state.serving
        self.server = HttpServer(app)
        self._thread = threading.Thread(target=lambda: asyncio.run(self.server.serve()), daemon=True)
        self._thread.start()
        deadline = time.monotonic() + 20
        while not (self.server.started and self.serving.is_ready):
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.01)
        self.port: int = self.server.servers[0].sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        """Open a raw connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    @property
    def has_ended(self) -> bool:
        """Whether it does not serve any more."""
        return not self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait for its end."""
        self._thread.join(seconds)
        assert self.has_ended, "the server does not end"

    def end(self) -> None:
        """End it, whatever runs."""
        self.server.should_exit = True
        self.join(20)
