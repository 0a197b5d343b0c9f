"""The server on its port. Told to stop, it ends what runs before it goes."""

from __future__ import annotations

import logging
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from typing_extensions import override

from sureact.server.admission import shutting_down
from sureact.server.bounded_protocol import bounded_protocol

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from sureact.server.serving import Serving

_KEEP_ALIVE_S = 65
"""Idle connections are kept for longer than most proxies keep them: those then close first, and lose no request."""
_CANCEL_S = 5
"""For requests that were cancelled to tell their clients."""

_logger = logging.getLogger(__name__)


class HttpServer(uvicorn.Server):
    """Serves an application until SIGTERM or SIGINT.

    From then on `/ready` fails and new requests are refused; those that are here may end, until they are ended. A
    second signal ends them at once.
    """

    def __init__(self, app: Starlette) -> None:
        """Take an application of `create_app`."""
        self._serving: Serving = app.state.serving
        config = self._serving.config
        super().__init__(
            uvicorn.Config(
                app,
                host=config.host,
                port=config.port,
                http=bounded_protocol(config),
                ws="none",
                h11_max_incomplete_event_size=config.max_head_bytes,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_CANCEL_S,
                backlog=config.max_connections,
                log_config=None,
                access_log=False,
                server_header=False,
            )
        )
        self._drain_until: float | None = None
        self._are_ended = False

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain. It runs as a signal handler, between any two instructions."""
        now = time.monotonic()
        self._drain_until = now + self._serving.config.drain_timeout_s if self._drain_until is None else now
        self._serving.admission.is_draining = True
        self._serving.is_ready = False

    @override
    async def on_tick(self, counter: int) -> bool:
        """Return whether to leave the loop: asked ten times a second."""
        if self._drain_until is not None and not self.should_exit:
            admission = self._serving.admission
            if admission.num_entered == 0:
                self.should_exit = True
            elif time.monotonic() >= self._drain_until and not self._are_ended:
                _logger.warning("Requests that did not end by themselves, and were ended: %d", admission.num_entered)
                self._are_ended = True
                admission.end_all(shutting_down)
                self._drain_until += _CANCEL_S
            elif time.monotonic() >= self._drain_until:
                self.should_exit = True
        return bool(await super().on_tick(counter))

    def handle_hangup(self) -> None:
        """Read the file of keys again whenever the process gets SIGHUP, where there is such a signal.

        Without keys it is ignored, but from a terminal that is closed, which ends the server as any other command.
        """
        if not hasattr(signal, "SIGHUP"):
            return
        keys = self._serving.keys
        if keys is not None:
            signal.signal(signal.SIGHUP, lambda number, frame: keys.reload())
        elif not sys.stderr.isatty():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
