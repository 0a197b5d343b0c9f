"""Records work once, so that a GPU can do it again without the host naming each kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

PoolHandle = Any
"""Names memory of graphs; torch keeps the type to itself."""

_NUM_WARMUPS = 2
"""Runs before the recording: kernels are compiled and libraries get their workspaces in them."""


def new_pool(device: torch.device) -> PoolHandle | None:
    """Return memory for the intermediate results of recordings that never run at the same time; None on a CPU."""
    return torch.cuda.graph_pool_handle() if device.type == "cuda" else None


def record(run: Callable[[], None], device: torch.device, pool: PoolHandle | None) -> Callable[[], None]:
    """Return a function that does again what `run` does: replays a CUDA graph, or on a CPU runs it.

    Args:
        run: launches work on the current stream; reads and writes memory that stays where it is, and never waits.
        device: where it works.
        pool: from `new_pool`.

    Raises:
        torch.OutOfMemoryError: the intermediate results do not fit.
        RuntimeError: `run` does what cannot be recorded.
    """
    if device.type != "cuda":
        return run
    with torch.cuda.device(device):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_NUM_WARMUPS):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU meanwhile.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            run()

    def replay() -> None:
        with torch.cuda.device(device):
            graph.replay()

    return replay
