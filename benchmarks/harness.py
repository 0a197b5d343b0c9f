"""What all benchmarks share: timing with cold caches, medians and spread, the line that reports them."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from sureact.evaluation.machine import hardware, versions

HIDDEN_SIZE, INTERMEDIATE_SIZE, VOCAB_SIZE = 896, 4864, 151_936
NUM_Q_HEADS, NUM_KV_HEADS, HEAD_DIM, BLOCK_SIZE = 14, 2, 64, 128
"""Sizes of Qwen2.5 0.5B, which the kernel benchmarks use, and the engine's block size."""

_FLUSH_BYTES = 1 << 28
"""Written before each call: more than any last-level cache holds."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of repeated calls."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median in seconds."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Difference of the slowest and the fastest call, as a share of the median."""
        return (max(self.seconds) - min(self.seconds)) / self.median


def device() -> torch.device:
    """Return the first GPU, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def time_calls(function: Callable[[], object], *, warmup: int = 3, repeats: int = 20) -> Timing:
    """Time a function that runs on `device()`, with inputs that come from memory and not from a cache."""
    flush = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device=device())
    for _ in range(warmup):
        function()
    seconds: list[float] = []
    for _ in range(repeats):
        flush.zero_()
        _synchronize()
        start = time.perf_counter()
        function()
        _synchronize()
        seconds.append(time.perf_counter() - start)
    return Timing(tuple(seconds))


def report(op: str, shape: str, function: Callable[[], object], *, num_bytes: int) -> None:
    """Time an op and print microseconds, spread and gigabytes (10^9) per second.

    Args:
        op: name.
        shape: of the case, in words.
        function: runs the op once.
        num_bytes: what the op must read and write at least.
    """
    timing = time_calls(function)
    print(
        f"{op:<20} {shape:<36} {timing.median * 1e6:>10,.1f} us  spread {timing.spread:>5.0%}  "
        f"{num_bytes / timing.median / 1e9:>7.1f} GB/s"
    )


def print_machine() -> None:
    """Print the device and the versions that the numbers below belong to."""
    machine, installed = hardware(), versions()
    where = machine["gpus"] or f"{machine['cpu']}, {torch.get_num_threads()} threads"
    print(f"{where}; torch {installed['torch']}, triton {installed['triton']}")


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
