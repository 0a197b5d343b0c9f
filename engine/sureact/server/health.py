"""`/health` and `/ready`: whether the process lives, and whether it may be sent requests."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from sureact.server.api_error import RETRY_AFTER_S
from sureact.server.endpoint import json_bytes

if TYPE_CHECKING:
    from sureact.server.endpoint import Exchange
    from sureact.server.serving import Serving


async def answer_health(serving: Serving, exchange: Exchange) -> None:
    """Answer that the process lives."""
    await exchange.send_json({"status": "alive"})


async def answer_ready(serving: Serving, exchange: Exchange) -> None:
    """Answer whether the model is loaded and has decoded a token."""
    if serving.is_ready:
        await exchange.send_json({"status": "ready"})
        return
    body = json_bytes({"status": "not ready"})
    await exchange.send_bytes(body, HTTPStatus.SERVICE_UNAVAILABLE, headers=(("retry-after", str(RETRY_AFTER_S)),))
