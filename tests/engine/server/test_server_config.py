from typing import Any

import pytest

from sureact.errors import ConfigError
from sureact.server.server_config import ServerConfig


def test_the_default_is_reached_from_this_machine_alone() -> None:
    assert ServerConfig().host == "127.0.0.1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", ""),
        ("host", None),
        ("port", -1),
        ("port", 65536),
        ("port", True),
        ("served_model_name", " "),
        ("max_body_bytes", 0),
        ("max_json_depth", 1000),
        ("keep_alive_s", 0),
        ("keep_alive_s", float("nan")),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        ServerConfig(**{name: value})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "server.example"])
def test_others_need_a_key_unless_the_operator_says_so(host: str) -> None:
    with pytest.raises(ConfigError, match="--api-keys"):
        ServerConfig(host=host)
    assert ServerConfig(host=host, no_api_key=True).host == host
    assert not ServerConfig(host=host, api_keys="keys").is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.5.5.5", "::1", "localhost"])
def test_this_machine_needs_none(host: str) -> None:
    assert ServerConfig(host=host).is_loopback


@pytest.mark.parametrize(
    "values",
    [
        {"api_keys": "keys", "no_api_key": True},
        {"cors_origin": "app.example"},
        {"allowed_hosts": " "},
        {"allowed_hosts": "http://app.example"},
        {"allowed_hosts": "app.example:8000"},
        {"cors_origin": "https://app.example/path"},
        {"cors_origin": "https://"},
        {"cors_origin": "https://app.example, "},
        {"cors_origin": "://app.example"},
        {"request_timeout_s": 0},
        {"drain_timeout_s": True},
        {"max_queued": -1},
        {"key_max_running": 0},
        {"max_head_bytes": 10},
        {"public_prefix": " "},
        {"tools": ""},
        {"tool_timeout_s": 0},
        {"max_agents": 0},
    ],
)
def test_limits_are_checked(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ServerConfig(**values)


def test_origins_of_programs_with_pages_can_be_named() -> None:
    origins = "https://app.example:8443, app://obsidian.md, vscode-webview://0a1b, chrome-extension://abc, null"
    assert ServerConfig(cors_origin=origins).cors_origin == origins
    assert ServerConfig(cors_origin="*").cors_origin == "*"
