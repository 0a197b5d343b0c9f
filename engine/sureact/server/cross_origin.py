"""Which pages of other sites may ask, and read answers: none, unless the operator names them."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from sureact.server.api_error import ApiError
from sureact.server.request_fields import shown

if TYPE_CHECKING:
    from starlette.types import Scope

_ALLOWED = (
    (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
    (b"access-control-max-age", b"600"),
)
_ASKED_HEADERS = b"access-control-request-headers"
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE = (b"same-origin", b"none")
"""What browsers say of the server's own page, and of what the user typed."""


class CrossOrigin:
    """The origins that are let in. No cookies go with their requests; keys do."""

    def __init__(self, origins: str | None) -> None:
        """Take origins such as `https://app.example` or `null`, separated by commas, or `*`; None lets none in."""
        self._origins = frozenset(origin.strip().lower().encode() for origin in origins.split(",")) if origins else None

    def check(self, scope: Scope) -> None:
        """Refuse what a page of another site asks for.

        Browsers hide the answer from such a page, but some requests they send without asking first.

        Raises:
            ApiError: the page is of another site, which is not let in.
        """
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if scope["method"] in _READING or self._lets_in(origin) or (origin is None and site is None):
            return
        # Only browsers of the last years tell the site, and only where the connection is safe or of this machine.
        is_own = site in _OWN_SITE if site is not None else _place(origin) == headers.get(b"host")
        if not is_own:
            told = "a page of another site" if origin is None else f"a page of {shown(origin.decode('latin-1'))}"
            raise ApiError(
                f"The request comes from {told}, which may not ask this server. Name it with --cors-origin.",
                status=HTTPStatus.FORBIDDEN,
                code="origin_not_allowed",
            )

    def is_preflight(self, scope: Scope) -> bool:
        """Whether a browser asks if it may ask, and origins are let in."""
        is_asking = scope["method"] == "OPTIONS" and b"access-control-request-method" in dict(scope["headers"])
        return is_asking and self._origins is not None

    def headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return what tells a browser that its page may read the answer."""
        if self._origins is None:
            return []
        origin = dict(scope["headers"]).get(b"origin")
        is_preflight = self.is_preflight(scope)
        told = [(b"vary", b"origin, " + _ASKED_HEADERS if is_preflight else b"origin")]
        if origin is None or not self._lets_in(origin):
            return told
        told.append((b"access-control-allow-origin", origin))
        if not is_preflight:
            return [*told, (b"access-control-expose-headers", b"x-request-id, retry-after")]
        # Clients send headers of their own, which nothing here reads; "*" would leave authorization out.
        asked = dict(scope["headers"]).get(_ASKED_HEADERS)
        return [*told, *_ALLOWED] if asked is None else [*told, *_ALLOWED, (b"access-control-allow-headers", asked)]

    def _lets_in(self, origin: bytes | None) -> bool:
        return self._origins is not None and (origin in self._origins or b"*" in self._origins)


def _place(origin: bytes | None) -> bytes | None:
    """Return host and port of an origin, as a request to it has them in `Host`."""
    return None if origin is None else origin.partition(b"://")[2]
