"""Times one op alone, with cold caches: on a GPU by its own clock and as a CUDA graph, on a CPU as the harness does."""

import statistics
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from benchmarks.harness import Timing, device, time_calls

from sureact_kernels.errors import KernelInputError

COPY_BYTES = {"cuda": 1 << 30, "cpu": 1 << 28}
"""Copied to learn the bandwidth: more than any cache holds."""

_FLUSH_BYTES = 1 << 28
_WARMUP = 3

How = Literal["graph", "eager", "cpu"]
"""As a CUDA graph; call by call, for what waits for the GPU and so cannot be captured; or on a CPU."""


class Timed(NamedTuple):
    """Seconds of repeated calls, and how they ran."""

    timing: Timing
    how: How


def timed(function: Callable[[], object], *, repeats: int) -> Timed:
    """Time a function that runs on `device()` and finds nothing in the caches."""
    if device().type == "cpu":
        return Timed(time_calls(function, repeats=repeats), "cpu")
    run, how = _captured(function)
    flush = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device=device())
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in events:
        # While the GPU writes this, the host enqueues what follows, so that launches cost nothing of the time between.
        flush.zero_()
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return Timed(Timing(tuple(start.elapsed_time(end) / 1e3 for start, end in events)), how)


def copy_gb_per_s(*, repeats: int = 10) -> float:
    """Return 10^9 bytes per second of copying a large tensor; the bytes read and those written both count."""
    source = torch.ones(COPY_BYTES[device().type] // 4, dtype=torch.float32, device=device())
    target = torch.empty_like(source)
    return 2 * source.nbytes / timed(lambda: target.copy_(source), repeats=repeats).timing.median / 1e9


def least_us(*, repeats: int = 20) -> float:
    """Return the microseconds that are measured for writing four bytes: no op can show less."""
    one = torch.empty(1, device=device())
    return statistics.median(timed(one.zero_, repeats=repeats).timing.seconds) * 1e6


def _captured(function: Callable[[], object]) -> tuple[Callable[[], object], How]:
    """Return what replays the function as a graph; itself if it waits for the GPU."""
    for _ in range(_WARMUP):  # compiles kernels, too
        function()
    torch.cuda.synchronize()
    if _waits(function):
        return function, "eager"
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            function()
    except (
        RuntimeError,
        KernelInputError,
    ):  # waits in a way that torch does not watch for; the failed capture leaves its stream current
        torch.cuda.set_stream(torch.cuda.default_stream())
        torch.cuda.synchronize()
        return function, "eager"
    graph.replay()
    return graph.replay, "graph"


def _waits(function: Callable[[], object]) -> bool:
    """Tell whether a function waits for the GPU; asked before the capture, which would break in the middle."""
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        function()
    except (RuntimeError, KernelInputError) as error:  # the second where SUREACT_KERNELS=required words it
        if "synchronizing" not in str(error):
            raise
        return True
    finally:
        torch.cuda.set_sync_debug_mode(mode)
    return False
