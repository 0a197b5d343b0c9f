"""Which version of an op runs: the one in C++ on a CPU, Triton's on a GPU, or the torch reference of its contract."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

from sureact_kernels.cpu.library import library

if TYPE_CHECKING:
    import torch


def version_of(op: str, *tensors: torch.Tensor) -> Any:
    """Return the module that computes `op` for these tensors, with a function of that name; None for the reference.

    A version says with `takes(*tensors)` what it computes. Its answer may depend on dtypes, devices and the sizes of a
    row, never on the number of rows: a row's bits must be the same in any company.
    """
    if tensors[0].device.type != "cpu" or library() is None:
        return None
    version = _module(f"sureact_kernels.cpu.{op}")
    return version if version.takes(*tensors) else None


@cache
def _module(name: str) -> Any:
    return importlib.import_module(name)
