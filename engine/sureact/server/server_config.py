"""Settings of the HTTP server."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from sureact.errors import ConfigError
from sureact.option_values import require_whole

_HOST_NAME = re.compile(r"\*|[A-Za-z0-9._-]+")
_ORIGIN = re.compile(r"\*|null|[A-Za-z][A-Za-z0-9+.-]*://[!-.0-~]+")  # printable ASCII but blanks and "/"


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
    api_keys: str | None = None
    """File of the keys that clients need, one a line as NAME:KEY; read again when it changes, and at SIGHUP."""
    no_api_key: bool = False
    """Serve everybody who reaches an address that is not of this machine alone."""
    public_metrics: bool = False
    """Answer /metrics without a key too."""
    key_max_running: int | None = None
    """Requests of one key that run at once; None is as many as the server runs."""
    key_max_queued: int | None = None
    """Requests of one key that wait at once; None is as many as the server lets wait."""
    key_max_requests_per_minute: int | None = None
    """Requests of one key within any sixty seconds; None is any number."""
    max_running: int | None = None
    """Requests that run at once; None takes what the engine decodes together."""
    max_queued: int = 512
    """Requests that wait at once; more are refused."""
    max_agents: int | None = None
    """Runs of agents at once, among the requests that run; None is half of these, so that others find a place."""
    queue_timeout_s: float = 300.0
    """Longest wait of a request for its turn, in seconds."""
    request_timeout_s: float = 1800.0
    """Longest run of a request after its turn came, in seconds."""
    read_timeout_s: float = 30.0
    """Seconds that a client has to send the head of a request, then its body, and to take any part of an answer."""
    drain_timeout_s: float = 60.0
    """Seconds that running requests get to end when the server is told to stop."""
    max_connections: int = 1024
    """Connections that are open at once; more are refused."""
    max_head_bytes: int = 64 * 2**10
    """Longest head of a request, in bytes."""
    max_schema_nodes: int = 10_000
    """Values in all schemas of a request together."""
    max_enum_values: int = 5_000
    """Values of all enumerations and choices of a request together."""
    max_pattern_chars: int = 4_000
    """Longest regular expression of a request, in characters."""
    max_grammar_chars: int = 50_000
    """Longest grammar of a request, in characters."""
    tools: str | None = None
    """Python file of tools that agents may call for clients: its list TOOLS, else its public functions."""
    tool_timeout_s: float = 60.0
    """Seconds after which the call of a tool is given up that has no timeout_s of its own."""
    public_prefix: str | None = None
    """File of a beginning that prompts of all keys may share in the cache: text, or a chat as .json."""
    allowed_hosts: str | None = None
    """Names beside localhost that requests may have in Host, separated by commas, or *; None is any name where keys are
    needed or everybody may ask."""
    cors_origin: str | None = None
    """Origins whose pages may ask, separated by commas, or *; None lets no page of another site ask."""
    log_requests: bool = True
    """Write a line of JSON about every request."""
    log_prompts: bool = False
    """Write what clients ask into these lines too."""

    def __post_init__(self) -> None:
        """Validate."""
        _require_text("host", self.host)
        if self.served_model_name is not None:
            _require_text("served_model_name", self.served_model_name)
        require_whole("port", self.port, least=0, most=65535)
        require_whole("max_body_bytes", self.max_body_bytes)
        # Every level of an answer's checks is a Python call, of which there can be a thousand.
        require_whole("max_json_depth", self.max_json_depth, least=4, most=256)
        for name in (
            "max_connections",
            "max_schema_nodes",
            "max_enum_values",
            "max_pattern_chars",
            "max_grammar_chars",
        ):
            require_whole(name, getattr(self, name))
        require_whole("max_head_bytes", self.max_head_bytes, least=1024)
        require_whole("max_queued", self.max_queued, least=0)
        for name in ("max_running", "max_agents", "key_max_running", "key_max_requests_per_minute", "key_max_queued"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name), least=0 if name == "key_max_queued" else 1)
        _require_seconds("keep_alive_s", self.keep_alive_s, most=3600)
        for name in ("queue_timeout_s", "request_timeout_s", "read_timeout_s", "drain_timeout_s", "tool_timeout_s"):
            _require_seconds(name, getattr(self, name), most=7 * 86400)
        self._check_access()

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the server."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:  # a name, which may mean any address
            return False

    def _check_access(self) -> None:
        if not (self.is_loopback or self.api_keys is not None or self.no_api_key):
            raise ConfigError(
                f"host is {self.host!r}, which others may reach, and there are no keys. Give a file with --api-keys, "
                "or say with --no-api-key that everybody may ask."
            )
        if self.api_keys is not None and self.no_api_key:
            raise ConfigError("api_keys and no_api_key are both given. Leave one out.")
        for name in ("api_keys", "tools", "public_prefix", "allowed_hosts", "cors_origin"):
            if getattr(self, name) is not None:
                _require_text(name, getattr(self, name))
        if self.allowed_hosts is not None:
            for name in self.allowed_hosts.split(","):
                if not _HOST_NAME.fullmatch(name.strip()):
                    raise ConfigError(
                        f"allowed_hosts holds {name.strip()!r}; a host is written as api.example, without a port."
                    )
        if self.cors_origin is not None:
            for origin in self.cors_origin.split(","):
                text = origin.strip()
                if not _ORIGIN.fullmatch(text):
                    raise ConfigError(
                        f"cors_origin holds {text!r}; an origin is written as https://app.example or app://name, "
                        "without a path, or as null."
                    )


def _require_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{name} is {value!r}; it must be a text that is not empty.")


def _require_seconds(name: str, value: object, *, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise ConfigError(f"{name} is {value!r}; it must be above 0 and at most {most:,} seconds.")
