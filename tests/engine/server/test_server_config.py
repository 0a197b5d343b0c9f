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
