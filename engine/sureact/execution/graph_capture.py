"""Records work once, so that a GPU can do it again without the host naming each kernel."""

from __future__ import annotations

from collections.abc import Callable

import torch

_NUM_WARMUPS = 2
"""Runs before the recording: kernels are compiled and libraries get their workspaces in them."""


class Recorder:
    """Records what is done on one device. Recordings share the memory of their intermediate results.

    So they must never run at the same time. On a CPU nothing is recorded: work is done again by doing it.
    """

    def __init__(self, device: torch.device) -> None:
        """Prepare for a device."""
        self._device = device
        self._has_graphs = device.type == "cuda"
        if self._has_graphs:
            # One of its own for all recordings: torch's stream for them belongs to the GPU that recorded first in the
            # process, and memory is shared between recordings of the same stream only.
            self._stream = torch.cuda.Stream(device)
            self._pool = torch.cuda.graph_pool_handle()

    def record(self, run: Callable[[], None]) -> Callable[[], None]:
        """Return what does again what `run` does: replays a CUDA graph, or is `run`.

        Args:
            run: launches work on the current stream and never waits; the memory that it reads and writes must stay
                where it is for as long as `run` exists, which the returned function sees to.

        Raises:
            torch.OutOfMemoryError: the intermediate results do not fit.
            RuntimeError: `run` does what cannot be recorded.
        """
        if not self._has_graphs:
            return run
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device):
            before = torch.cuda.current_stream()
            self._stream.wait_stream(before)
            try:
                with torch.cuda.stream(self._stream):
                    for _ in range(_NUM_WARMUPS):
                        run()
                before.wait_stream(self._stream)
                # Other threads may use the GPU meanwhile.
                with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
                    run()
            finally:
                # A recording that fails leaves its stream current.
                torch.cuda.set_stream(before)
        return _Recording(graph, run, self._device)


class _Recording:
    """A graph, and what was recorded: tensors that only `run` holds are read at every replay."""

    def __init__(self, graph: torch.cuda.CUDAGraph, run: Callable[[], None], device: torch.device) -> None:
        self._graph, self._run, self._device = graph, run, device

    def __call__(self) -> None:
        with torch.cuda.device(self._device):
            self._graph.replay()
