from typing import Any

import pytest

from sureact.server.api_error import ApiError
from sureact.server.known_hosts import KnownHosts, host_name
from sureact.server.server_config import ServerConfig


def answers(asked: str | None, /, **options: Any) -> bool:
    """Whether a server of these settings answers a request for a host."""
    headers = [] if asked is None else [(b"host", asked.encode("latin-1"))]
    try:
        KnownHosts(ServerConfig(**options)).check({"headers": headers})
    except ApiError as error:
        return error.code != "unknown_host"
    return True


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "localhost.", "127.0.0.1:8000", "127.9.9.9", "[::1]:8"]
)
def test_names_of_this_machine_are_answered(host: str) -> None:
    assert answers(host)


@pytest.mark.parametrize("host", ["10.42.0.7:8000", "192.0.2.1", "[2001:db8::1]:8000", "[fe80::1%eth0]"])
def test_addresses_are_answered_since_nobody_can_point_them_elsewhere(host: str) -> None:
    assert answers(host)
    assert answers(host, host="0.0.0.0", api_keys="keys.txt", allowed_hosts="llm.example")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1.evil.example",
        "10.0.0",
        "::1",
        "\xe9",
    ],
)
def test_other_names_are_not_at_loopback_without_keys(host: str) -> None:
    assert not answers(host)


def test_the_bound_name_and_given_ones_are_answered() -> None:
    assert answers("127.0.0.2", host="127.0.0.2")
    assert answers("LLM.example:80", allowed_hosts="a.example, llm.example")
    assert not answers("b.example", allowed_hosts="a.example")
    assert answers("b.example", allowed_hosts="*")


def test_keys_or_an_open_server_need_no_name_but_may_ask_for_one() -> None:
    assert answers("evil.example", api_keys="keys.txt")
    assert answers("evil.example", host="0.0.0.0", no_api_key=True)
    assert not answers("evil.example", host="0.0.0.0", no_api_key=True, allowed_hosts="llm.example")


def test_no_browser_asks_without_a_name() -> None:
    assert answers(None)


def test_a_host_is_split_from_its_port() -> None:
    assert [host_name(host) for host in ("[::1]:80", "a.B.:80", "c")] == ["::1", "a.b", "c"]
