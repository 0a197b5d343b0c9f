import pickle
import socket
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from sureact.engine import Engine
from sureact.errors import ConfigError, RequestAbortedError, SessionError
from sureact.isolation.engine_service import EngineService
from sureact.isolation.messages import (
    Answer,
    Ask,
    Cancel,
    Change,
    Close,
    CloseSession,
    End,
    Failure,
    Generate,
    unpack_failure,
)
from sureact.outputs import StreamDelta
from sureact.sampling_params import SamplingParams

SHORT = SamplingParams(max_tokens=8)
LONG = SamplingParams(max_tokens=900, ignore_eos=True)


class Program:
    """The other end of the line."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.waiting: list[tuple[int, Any]] = []

    def send(self, message: object) -> None:
        self.connection.send_bytes(pickle.dumps(message))

    def receive(self, call_id: int) -> Any:
        """Return the next piece of an answer."""
        while True:
            for index, (other, piece) in enumerate(self.waiting):
                if other == call_id:
                    del self.waiting[index]
                    return piece
            self.waiting += pickle.loads(self.connection.recv_bytes())

    def end_of(self, call_id: int) -> Any:
        """Return the last piece of an answer."""
        while isinstance(piece := self.receive(call_id), StreamDelta):
            pass
        return piece


@pytest.fixture
def program(roomy_folder: Path) -> Iterator[Program]:
    """A service in a thread of this process."""
    engine = Engine(str(roomy_folder), quantization="none", dtype="float32", kv_cache_gb=0.01)
    ours, theirs = (Connection(end.detach()) for end in socket.socketpair())
    thread = threading.Thread(target=EngineService(engine, theirs).serve)
    thread.start()
    program = Program(ours)
    yield program
    program.send(Close())
    thread.join()
    ours.close()
    theirs.close()


def test_a_generation_is_answered_by_its_end(program: Program) -> None:
    program.send(Generate(1, [65, 66], SHORT, None, is_streamed=False))
    end = program.receive(1)
    assert isinstance(end, End)
    assert end.delta.output is not None
    assert len(end.delta.output.token_ids) == 8
    assert end.tail == []
    program.send(Generate(2, [65, 66], SHORT, None, is_streamed=True))
    assert isinstance(program.receive(2), StreamDelta)
    assert program.end_of(2).delta.output.token_ids == end.delta.output.token_ids


def test_a_session_is_made_when_it_is_first_named_and_follows_what_it_is_told(program: Program) -> None:
    program.send(Generate(1, Change(7, None, 0, [65, 66, 67]), SHORT, None, is_streamed=False))
    tail = program.receive(1).tail
    assert len(tail) == 8
    program.send(Ask(2, "num_cached_tokens", (7,)))
    assert program.receive(2).value == 10
    program.send(Ask(3, "fork", (Change(7, None, 2, [70]), 8)))
    assert program.receive(3) == Answer(None)
    program.send(CloseSession(7))
    program.send(Generate(4, Change(8, None, 3, []), SHORT, None, is_streamed=False))
    assert program.receive(4).delta.output.usage.prompt_tokens == 3


def test_what_is_wrong_is_answered(program: Program) -> None:
    program.send(Generate(1, [65], SHORT, b"nonsense", is_streamed=False))
    assert isinstance(unpack_failure(program.receive(1)), ConfigError)
    program.send(Ask(2, "load", (Change(1, None, 0, []), "/nowhere")))
    assert isinstance(unpack_failure(program.receive(2)), SessionError)
    program.send(Ask(3, "nonsense", ()))
    assert isinstance(unpack_failure(program.receive(3)), KeyError)


def test_a_cancelled_generation_ends_where_it_stands(program: Program) -> None:
    program.send(Generate(1, [65], LONG, None, is_streamed=True))
    assert isinstance(program.receive(1), StreamDelta)
    program.send(Cancel(1))
    program.send(Cancel(99))
    assert program.end_of(1).delta.output.finish_reason == "abort"
    program.send(Generate(2, [65], LONG, None, is_streamed=False))
    program.send(Cancel(2))
    end = program.end_of(2)
    if isinstance(end, Failure):  # before it began
        assert isinstance(unpack_failure(end), RequestAbortedError)
    else:
        assert end.delta.output.finish_reason == "abort"


def test_the_end_of_the_service_fails_what_runs(program: Program) -> None:
    program.send(Generate(1, [65], LONG, None, is_streamed=True))
    program.receive(1)
    program.send(Close())
    assert isinstance(unpack_failure(program.end_of(1)), RequestAbortedError)
