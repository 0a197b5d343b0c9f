"""The sockets that a server listens with, bound before its model is loaded, so that a taken port is told at once."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Generator, Sequence

from sureact.errors import ListenError


@contextlib.contextmanager
def bound_listeners(host: str, port: int) -> Generator[list[socket.socket]]:
    """Bind a socket to each address of a host, and close them at the end. Clients are let in once they listen.

    Args:
        host: a name or an address.
        port: the same for all addresses; 0 takes a free one.

    Raises:
        ListenError: the host is none of this machine, or the port is in use or not allowed.
    """
    with contextlib.ExitStack() as stack:
        listeners: list[socket.socket] = []
        with _told(host, port):
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, kind, protocol, _, address in dict.fromkeys(found):
                listener = stack.enter_context(socket.socket(family, kind, protocol))
                if os.name == "posix":  # elsewhere it would let two servers have one port
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:  # IPv4 is an address of its own
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind((address[0], port_of(listeners) if listeners else port, *address[2:]))
                listeners.append(listener)
        yield listeners


def listen(listeners: Sequence[socket.socket], backlog: int) -> None:
    """Let clients in.

    Raises:
        ListenError: another program has begun to listen at the port since the sockets were bound.
    """
    for listener in listeners:
        with _told(*listener.getsockname()[:2]):
            listener.listen(backlog)


def port_of(listeners: Sequence[socket.socket]) -> int:
    """Return the port, which the system may have chosen."""
    return listeners[0].getsockname()[1]


@contextlib.contextmanager
def _told(host: str, port: int) -> Generator[None]:
    """Say what the system's error means to who started the server."""
    try:
        yield
    except UnicodeError as error:
        raise ListenError(f"The host {host!r} is no name: {error}.") from error
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                message = f"Port {port} is in use at {host}. End what listens there, or give another one with --port."
            case errno.EACCES:
                message = f"Port {port} may not be listened at by this user. Give one above 1023 with --port."
            case _:
                message = f"Cannot listen at {host}, port {port}: {error.strerror}. Give an address of this machine."
        raise ListenError(message) from error
