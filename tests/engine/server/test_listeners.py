import socket

import pytest

from sureact.errors import ListenError
from sureact.server.listeners import bound_listeners, listen, port_of


def test_a_free_port_is_taken_and_clients_come_once_it_is_listened_at() -> None:
    with bound_listeners("127.0.0.1", 0) as listeners:
        port = port_of(listeners)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        listen(listeners, 5)
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    assert all(listener.fileno() == -1 for listener in listeners)


def test_all_addresses_of_a_name_have_one_port() -> None:
    with bound_listeners("localhost", 0) as listeners:
        assert {listener.getsockname()[1] for listener in listeners} == {port_of(listeners)}


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = f"Port {port} is in use at 127.0.0.1.*--port"
        with pytest.raises(ListenError, match=said), bound_listeners("127.0.0.1", port):
            pass


def test_a_port_that_is_taken_between_binding_and_listening_is_told() -> None:
    with bound_listeners("127.0.0.1", 0) as first, bound_listeners("127.0.0.1", port_of(first)) as second:
        listen(first, 5)
        with pytest.raises(ListenError, match="is in use"):
            listen(second, 5)


def test_a_host_that_is_not_this_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "Cannot listen at 192.0.2.1, port 0: .*address of this machine"
    with pytest.raises(ListenError, match=said), bound_listeners("192.0.2.1", 0):
        pass

    def find_none(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", find_none)
    with pytest.raises(ListenError, match="port 80: Name or service not known"), bound_listeners("no.invalid", 80):
        pass


def test_a_host_that_cannot_be_a_name_is_told() -> None:
    with pytest.raises(ListenError, match="is no name"), bound_listeners("a..b\xe9", 0):
        pass


def test_a_port_that_is_not_allowed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: socket.socket, address: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(ListenError, match="above 1023"), bound_listeners("127.0.0.1", 80):
        pass
