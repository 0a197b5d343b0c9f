"""A server as `sureact serve` runs it, in a thread of this process, so that its engine can be asked directly too."""

from __future__ import annotations

import asyncio
import cProfile
import io
import pstats
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

import psutil

from sureact.async_engine import AsyncEngine
from sureact.server.app import create_app
from sureact.server.http_server import HttpServer
from sureact.server.server_config import ServerConfig

if TYPE_CHECKING:
    from sureact.engine import Engine

_START_TIMEOUT_S = 120.0
_NUM_FUNCTIONS = 25


class ServerThread:
    """A server that listens and is ready inside a `with` block."""

    def __init__(self, engine: Engine, *, is_profiled: bool = False) -> None:
        self._app = create_app(AsyncEngine.of(engine), ServerConfig(port=0))
        self._server = HttpServer(self._app)
        self._profile = cProfile.Profile() if is_profiled else None
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.servers[0].sockets[0].getsockname()[1]

    def cpu_s(self) -> float:
        """Return the processor's seconds that the server's thread has used; 0 where threads are not told apart."""
        for thread in psutil.Process().threads():
            if thread.id == self._thread.native_id:
                return thread.user_time + thread.system_time
        return 0.0

    def profile_text(self) -> str:
        """Return where the server's thread spent its time, once it has ended."""
        assert self._profile is not None, "it is profiled"
        text = io.StringIO()
        pstats.Stats(self._profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(_NUM_FUNCTIONS)
        return text.getvalue()

    def _run(self) -> None:
        if self._profile is None:
            asyncio.run(self._server.serve())
        else:
            self._profile.runcall(asyncio.run, self._server.serve())

    def __enter__(self) -> Self:
        """Start it and wait until it is ready."""
        self._thread.start()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not (self._server.started and self._app.state.serving.is_ready):
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise RuntimeError("the server does not start")
            time.sleep(0.01)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End it."""
        self._server.should_exit = True
        self._thread.join(_START_TIMEOUT_S)
