"""Which pages of other sites may read answers: none, unless the operator names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope

_ALLOWED = (
    (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
    (b"access-control-allow-headers", b"authorization, content-type, x-request-id"),
    (b"access-control-max-age", b"600"),
)


class CrossOrigin:
    """The origins that are let in. No cookies go with their requests; keys do."""

    def __init__(self, origins: str) -> None:
        """Take origins such as `https://app.example`, separated by commas, or `*` for all."""
        self._origins = frozenset(origin.strip().encode() for origin in origins.split(","))

    def is_preflight(self, scope: Scope) -> bool:
        """Whether a browser asks if it may ask."""
        return scope["method"] == "OPTIONS" and b"access-control-request-method" in dict(scope["headers"])

    def headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return what tells a browser that its page may read the answer."""
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        origin = headers.get(b"origin")
        told = [(b"vary", b"origin")]
        if origin is None or not (origin in self._origins or b"*" in self._origins):
            return told
        told += [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"x-request-id, retry-after"),
        ]
        return told + list(_ALLOWED) if self.is_preflight(scope) else told
