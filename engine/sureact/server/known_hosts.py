"""By which names a server may be called, so that no page reaches it by having its own name point to this machine."""

from __future__ import annotations

import ipaddress
from http import HTTPStatus
from typing import TYPE_CHECKING

from sureact.server.api_error import ApiError
from sureact.server.request_fields import shown

if TYPE_CHECKING:
    from starlette.types import Scope

    from sureact.server.server_config import ServerConfig


class KnownHosts:
    """The names in `Host` that are answered.

    A browser lets a page ask the server that it came from. The owner of a name can let it point to 127.0.0.1 once the
    page is loaded, and what guards a server at loopback without keys is that nobody else reaches it. An address cannot
    be pointed elsewhere, so every address is answered.
    """

    def __init__(self, config: ServerConfig) -> None:
        """Take the settings of the server. Where keys are needed, or everybody may ask, only given names count."""
        given = {name.strip().lower() for name in (config.allowed_hosts or "").split(",")} - {""}
        is_guarded = bool(given) or (config.is_loopback and config.api_keys is None)
        self._names = given | {"localhost", config.host.lower()} if is_guarded and "*" not in given else None
        """None if any name is answered."""

    def check(self, scope: Scope) -> None:
        """Refuse a request by a name that is none of the server's; without a name it comes from no browser.

        Raises:
            ApiError: the name is unknown.
        """
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if self._names is None or not host:
            return
        name = host_name(host)
        if name not in self._names and not _is_address(name):
            raise ApiError(
                f"The request is for the host {shown(host)}, which is none of this server's names. Ask for localhost, "
                "or name the host with --allowed-hosts.",
                status=HTTPStatus.FORBIDDEN,
                code="unknown_host",
            )


def host_name(host: str) -> str:
    """Return the name or address in a `Host` header, without its port, brackets and final dot."""
    bracketed, bracket, _ = host.partition("]")
    name = bracketed.removeprefix("[") if bracket else host.partition(":")[0]
    return name.lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
