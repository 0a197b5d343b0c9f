"""The ops that were built from C++, or the reason why every op computes its torch reference."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

import torch

from sureact_kernels.cpu.build import Unavailable, load_ops, path_of_ops

if TYPE_CHECKING:
    import ctypes

_logger = logging.getLogger(__name__)


def library() -> ctypes.CDLL | None:
    """Return the built ops, building them if need be (some seconds, once); None where they cannot be used."""
    return _found()[0]


def reason_unavailable() -> str | None:
    """Say why `library()` is None."""
    return _found()[1]


def library_for(*tensors: torch.Tensor) -> ctypes.CDLL | None:
    """Return the built ops if they take these tensors: float32, on the CPU."""
    for tensor in tensors:
        if tensor.dtype is not torch.float32 or tensor.device.type != "cpu":
            return None
    return library()


def is_built() -> bool:
    """Tell whether `library()` answers at once: the ops lie on the disk, or cannot be built here."""
    try:
        return path_of_ops().exists()
    except Unavailable:
        return True


@cache
def _found() -> tuple[ctypes.CDLL | None, str | None]:
    try:
        return load_ops(), None
    except Unavailable as reason:
        _logger.info("The CPU ops in C++ are not used: %s", reason)
        return None, str(reason)
