"""The ops that were built from C++, or the reason why every op computes its torch reference."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import torch

from sureact_kernels.cpu.build import Unavailable, is_version_required, load_ops, path_of_ops
from sureact_kernels.errors import KernelInputError

if TYPE_CHECKING:
    import ctypes

Observer = Callable[[str, tuple["Argument", ...], float], None]
"""Takes the name of an op, its arguments, and its seconds."""

Argument = torch.Tensor | int | float | None

_observers: list[Observer] = []

_logger = logging.getLogger(__name__)


def library() -> ctypes.CDLL | None:
    """Return the built ops, building them if need be (some seconds, once); None where they cannot be used.

    Raises:
        KernelInputError: they cannot be used and SUREACT_KERNELS is 'required', or it has no meaning.
    """
    found, reason = _found()
    if found is None and is_version_required():
        raise KernelInputError(
            f"SUREACT_KERNELS is 'required', but the CPU ops in C++ cannot be used: {reason} Mend that, or unset "
            "SUREACT_KERNELS to compute torch's references."
        )
    return found


def reason_unavailable() -> str | None:
    """Say why the built ops cannot be used; None where they can."""
    return _found()[1]


def is_built() -> bool:
    """Tell whether `library()` answers at once: the ops lie on the disk, or cannot be built here."""
    try:
        return path_of_ops().exists()
    except Unavailable:
        return True


def call(op: str, *arguments: Argument) -> None:
    """Run an op on torch's threads; tensors are given as where their first element lies, so they must be contiguous.

    Raises:
        MemoryError: there is no memory left for what it keeps meanwhile.
    """
    compiled = library()
    assert compiled is not None, "only asked for where the ops are there"
    pointers = [argument.data_ptr() if isinstance(argument, torch.Tensor) else argument for argument in arguments]
    start = time.perf_counter() if _observers else 0.0
    if getattr(compiled, f"sureact_{op}")(*pointers, torch.get_num_threads()) is False:
        raise MemoryError(f"The CPU op {op} found no memory left for its intermediate results.")
    for observer in _observers:
        observer(op, arguments, time.perf_counter() - start)


@contextmanager
def observed(observer: Observer) -> Generator[None]:
    """Tell `observer` of every call meanwhile: torch's profiler does not see these ops."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def are_float32(*tensors: torch.Tensor) -> bool:
    """Tell whether all are float32."""
    return all(tensor.dtype is torch.float32 for tensor in tensors)


def is_plain_cache(cache_of_layer: torch.Tensor) -> bool:
    """Tell whether the keys or values of a layer lie as the ops read them: bfloat16, block after block."""
    return cache_of_layer.dtype is torch.bfloat16 and cache_of_layer.is_contiguous()


@cache
def _found() -> tuple[ctypes.CDLL | None, str | None]:
    try:
        return load_ops(), None
    except Unavailable as reason:
        _logger.info("The CPU ops in C++ are not used: %s", reason)
        return None, str(reason)
