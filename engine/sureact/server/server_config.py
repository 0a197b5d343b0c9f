"""Settings of the HTTP server."""

from __future__ import annotations

from dataclasses import dataclass

from sureact.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """What the server is told when it starts.

    Raises:
        ConfigError: a value is not allowed.
    """

    host: str = "127.0.0.1"
    """Address to listen at; the default is reached from this machine alone."""
    port: int = 8000
    """Port to listen at; 0 takes a free one."""
    served_model_name: str | None = None
    """Name that clients give the model; None takes the model's own."""
    max_body_bytes: int = 8 * 2**20
    """Largest body of a request, in bytes."""
    max_json_depth: int = 128
    """Deepest nesting of lists and objects in a body."""
    keep_alive_s: float = 15.0
    """Seconds without a token after which a stream gets a comment, so that nothing between takes it for dead."""

    def __post_init__(self) -> None:
        """Validate."""
        _require_text("host", self.host)
        if self.served_model_name is not None:
            _require_text("served_model_name", self.served_model_name)
        _require_whole("port", self.port, least=0, most=65535)
        _require_whole("max_body_bytes", self.max_body_bytes, least=1)
        # Every level of an answer's checks is a Python call, of which there can be a thousand.
        _require_whole("max_json_depth", self.max_json_depth, least=4, most=256)
        if isinstance(self.keep_alive_s, bool) or not 0 < self.keep_alive_s <= 3600:
            raise ConfigError(f"keep_alive_s is {self.keep_alive_s!r}; it must be above 0 and at most 3,600 seconds.")


def _require_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{name} is {value!r}; it must be a text that is not empty.")


def _require_whole(name: str, value: object, *, least: int, most: int | None = None) -> None:
    limit = f"at least {least:,}" if most is None else f"between {least:,} and {most:,}"
    if type(value) is not int or value < least or (most is not None and value > most):
        raise ConfigError(f"{name} is {value!r}; it must be a whole number, {limit}.")
