"""The guard of the test suite itself: no test can reach beyond this machine without failing."""

import socket

import pytest


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("example.org", 443)])
def test_a_connection_to_the_outside_fails_the_test(address: tuple[str, int]) -> None:
    with socket.socket() as client, pytest.raises(pytest.fail.Exception, match=address[0]):
        client.connect(address)


def test_this_machine_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()
