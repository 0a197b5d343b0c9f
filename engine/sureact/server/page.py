"""`GET /`: a page to try chats, schemas and agents in a browser. It needs this server and nothing else."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING

from sureact.page.assets import asset
from sureact.server.api_error import ApiError
from sureact.server.request_fields import shown

if TYPE_CHECKING:
    from sureact.server.endpoint import Exchange
    from sureact.server.serving import Serving

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # What a model or a tool wrote cannot become markup, even by a fault of the script.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = (
    ("content-security-policy", _POLICY),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    # A newer server may have another page.
    ("cache-control", "no-cache"),
)
_PARTS = {
    "page.css": ("text/css", ("look.css", "page.css")),
    "page.js": (
        "text/javascript",
        ("steps.js", "connection.js", "prose.js", "composer.js", "chat.js", "schema.js", "agent.js", "page.js"),
    ),
    "icon.svg": ("image/svg+xml", ("icon.svg",)),
}
"""What the page is made of: by name, its type, and the files that it is put together from."""


async def answer_page(serving: Serving, exchange: Exchange) -> None:
    """Answer with the page."""
    await _send(exchange, "text/html", ("page.html",))


async def answer_page_part(serving: Serving, exchange: Exchange) -> None:
    """Answer with a file of the page.

    Raises:
        ApiError: there is none of that name.
    """
    name: str = exchange.scope["path_params"]["name"]
    if name not in _PARTS:
        raise ApiError(f"The page has no file {shown(name)}.", status=HTTPStatus.NOT_FOUND, code="not_found")
    await _send(exchange, *_PARTS[name])


async def _send(exchange: Exchange, kind: str, names: tuple[str, ...]) -> None:
    await exchange.send_bytes(_read(names), content_type=f"{kind}; charset=utf-8", headers=_HEADERS)


@lru_cache
def _read(names: tuple[str, ...]) -> bytes:
    return asset(*names).encode()
