import os
import pickle
import socket
import subprocess
import sys
from multiprocessing.connection import Connection

import pytest

from sureact.errors import ModelNotFoundError
from sureact.isolation import engine_worker
from sureact.isolation.messages import unpack_failure


def test_what_prevents_loading_is_told_and_ends_the_process() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "sureact.isolation.engine_worker", str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
        )
    with process, Connection(ours.detach()) as connection:
        connection.send_bytes(pickle.dumps({"model": "/nowhere/at-all"}))
        assert isinstance(unpack_failure(pickle.loads(connection.recv_bytes())), ModelNotFoundError)
        assert process.wait() == 0


def _is_readable(*_: object) -> tuple[list[int], list[int], list[int]]:
    return [0], [], []


def _end_of_input(*_: object) -> bytes:
    return b""


@pytest.mark.parametrize("parent_id", [os.getppid(), -1])
def test_it_ends_when_the_program_is_gone(monkeypatch: pytest.MonkeyPatch, parent_id: int) -> None:
    """By the end of standard input, or because another process became the parent."""
    codes: list[int] = []
    monkeypatch.setattr(engine_worker.os, "_exit", codes.append)
    monkeypatch.setattr(engine_worker.select, "select", _is_readable)
    monkeypatch.setattr(engine_worker.os, "read", _end_of_input)
    engine_worker.end_with(parent_id)
    assert codes == [0]
