"""What is recorded, held against a stand-in for CUDA that writes down what it is asked for."""

import gc
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sureact.execution.graph_capture import Recorder

GPU = torch.device("cuda", 1)


def test_on_a_cpu_work_is_done_again_by_doing_it() -> None:
    x = torch.zeros(1)
    again = Recorder(torch.device("cpu")).record(partial(add_one, x))
    assert x.item() == 0
    again()
    again()
    assert x.item() == 2


class Cuda:
    """As much of `torch.cuda` as a recording needs; its graphs run nothing."""

    def __init__(self) -> None:
        self.current: object = "the caller's stream"
        self.devices: list[torch.device] = []
        self.captures: list[tuple[object, object, str]] = []
        self.replayed_on: list[torch.device] = []
        self.waited_for: list[object] = []
        self.fails = False
        self._num_pools = 0

    def Stream(self, device: torch.device) -> Any:  # noqa: N802  torch's name
        return SimpleNamespace(device=device, wait_stream=self.waited_for.append)

    def CUDAGraph(self) -> Any:  # noqa: N802  torch's name
        return SimpleNamespace(replay=lambda: self.replayed_on.append(self.devices[-1]))

    def graph_pool_handle(self) -> int:
        self._num_pools += 1
        return self._num_pools

    def current_stream(self) -> Any:
        return SimpleNamespace(name=self.current, wait_stream=self.waited_for.append)

    def set_stream(self, stream: Any) -> None:
        self.current = stream.name

    @contextmanager
    def device(self, device: torch.device) -> Generator[None]:
        self.devices.append(device)
        yield
        self.devices.pop()

    @contextmanager
    def stream(self, stream: object) -> Generator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    @contextmanager
    def graph(self, graph: object, pool: object, stream: object, *, capture_error_mode: str) -> Generator[None]:
        self.captures.append((pool, stream, capture_error_mode))
        self.current = stream  # and, as in torch, it stays so when the capture cannot be ended
        yield
        if self.fails:
            raise RuntimeError("operation not permitted when stream is capturing")


def add_one(x: torch.Tensor) -> None:
    x.add_(1)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    fake = Cuda()
    for name in ("Stream", "CUDAGraph", "graph_pool_handle", "current_stream", "set_stream", "device", "stream"):
        monkeypatch.setattr(torch.cuda, name, getattr(fake, name))
    monkeypatch.setattr(torch.cuda, "graph", fake.graph)
    return fake


def test_what_only_the_recorded_work_holds_lives_as_long_as_the_recording(cuda: Cuda) -> None:
    """A graph reads the same memory at every replay; freed, it would be another tensor's by then."""
    tiles = torch.zeros(4)
    alive = weakref.ref(tiles)
    recording = Recorder(GPU).record(partial(add_one, tiles))
    del tiles
    gc.collect()
    assert alive() is not None
    recording()
    del recording
    gc.collect()
    assert alive() is None


def test_work_is_warmed_up_then_recorded_and_never_run_by_the_host_again(cuda: Cuda) -> None:
    runs: list[object] = []
    recording = Recorder(GPU).record(lambda: runs.append(cuda.current))
    assert len(runs) == 3
    recording()
    assert len(runs) == 3
    assert cuda.replayed_on == [GPU]


def test_recordings_share_memory_and_therefore_a_stream_of_their_device(cuda: Cuda) -> None:
    recorder, other = Recorder(GPU), Recorder(torch.device("cuda", 0))
    for each in (recorder, recorder, other):
        each.record(lambda: None)
    pools, streams, modes = zip(*cuda.captures, strict=True)
    assert pools == (1, 1, 2)
    assert streams[0] is streams[1]
    assert [stream.device for stream in streams] == [GPU, GPU, torch.device("cuda", 0)]
    assert set(modes) == {"thread_local"}
    assert cuda.current == "the caller's stream"


def test_a_recording_that_fails_leaves_the_caller_on_its_stream(cuda: Cuda) -> None:
    cuda.fails = True
    with pytest.raises(RuntimeError, match="not permitted"):
        Recorder(GPU).record(lambda: None)
    assert cuda.current == "the caller's stream"
