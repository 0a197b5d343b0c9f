"""Which version of an op runs: the one in C++ on a CPU, Triton's on a GPU, or the torch reference of its contract."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch

from sureact_kernels.cpu.build import is_reference_wanted, is_version_required
from sureact_kernels.cpu.library import library
from sureact_kernels.errors import KernelInputError

GPU: str = "cuda"
"""The device type whose tensors go to Triton; a test may say "cpu", for Triton's interpreter."""
_logger = logging.getLogger(__name__)
_disabled: dict[str, str] = {}
_failing: set[str] = set()
"""Ops whose Triton version has just failed, while their reference is tried."""
_refused: set[str] = set()
"""Ops of which the log says that a GPU computed the reference for some tensors."""


def version_of(op: str, *tensors: torch.Tensor) -> Any:
    """Return what computes `op` for these tensors, with a function of that name; None for the reference.

    A version says with `takes(*tensors)` what it computes. Its answer may depend on dtypes, devices and the sizes of a
    row, never on the number of rows: a row's bits must be the same in any company. What no version in C++ takes is
    torch's part on a CPU, whatever SUREACT_KERNELS says.

    Raises:
        KernelInputError: SUREACT_KERNELS is 'required', and on a GPU Triton's version does not compute these, or on a
            CPU there are no ops in C++.
    """
    kind = tensors[0].device.type
    if kind != "cpu" or GPU == "cpu":
        return _version_off_cpu(op, tensors)
    if library() is None:
        return None
    version = _module(f"sureact_kernels.cpu.{op}")
    return version if version.takes(*tensors) else None


def version_on_gpu(op: str, *tensors: torch.Tensor) -> Any:
    """Return what `version_of` does, for an op that has no version in C++: None on a CPU."""
    return _version_off_cpu(op, tensors) if is_on_gpu(tensors[0]) else None


def is_on_gpu(tensor: torch.Tensor) -> bool:
    """Tell whether Triton's versions are asked for this tensor."""
    return tensor.device.type == GPU


def disable(op: str, reason: str) -> None:
    """Compute the reference of `op` on every GPU from now on; the log says so once."""
    if op not in _disabled:
        _disabled[op] = reason
        _logger.warning("%s: Triton's version is off, torch's reference computes it: %s", op, reason)


def disabled() -> dict[str, str]:
    """Return the ops whose Triton version is off in this process, with the reasons."""
    return dict(_disabled)


@cache
def reason_without_triton() -> str | None:
    """Say why no op runs in Triton on a GPU; None if they do.

    Where there is a GPU, Triton's driver is started for it, which compiles a library in C on its first start.

    Raises:
        KernelInputError: SUREACT_KERNELS has no meaning.
    """
    if is_reference_wanted():
        return "SUREACT_KERNELS is 'reference'."
    # Whether products and sums become fused ones changes bits, and Triton's default for it will change.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    try:
        triton: Any = importlib.import_module("triton")
    except ImportError as error:
        return f"Triton cannot be imported: {error}"
    return _reason_without_driver(triton) if torch.cuda.is_available() else None


def _reason_without_driver(triton: Any) -> str | None:
    try:
        _ = triton.runtime.driver.active
    except Exception as error:  # of a compiler that is missing or fails, of files that are not there, of the driver
        return (
            f"Triton cannot start its driver: {type(error).__name__}: {error} It compiles C when it starts: install "
            "gcc or clang (or name one by CC) and the headers of Python (Python.h; python3-dev or python3-devel)."
        )
    return None


def _version_off_cpu(op: str, tensors: tuple[torch.Tensor, ...]) -> Any:
    device = tensors[0].device
    if device.type == GPU and op not in _failing:
        reason = reason_without_triton() or _disabled.get(op)
        version = None if reason is not None else _guarded(op, device.index)
        # Tensors on several devices are the caller's mistake, which the reference words.
        if version is not None and all(t.device == device for t in tensors) and version.module.takes(*tensors):
            return version
        if is_version_required():
            raise KernelInputError(_refusal(op, tensors, reason or _disabled.get(op, "its `takes` says no.")))
        if reason is not None:
            return None
    if op not in _refused and op not in _disabled and op not in _failing:
        _refused.add(op)
        _logger.warning("%s: there is no Triton version for %s; torch's reference computes it", op, _words(tensors))
    return None


def _refusal(op: str, tensors: Iterable[torch.Tensor], reason: str) -> str:
    return (
        f"{op}: SUREACT_KERNELS is 'required', but Triton's version does not compute {_words(tensors)}: {reason} Give "
        f"it what sureact_kernels/triton/{op}.py takes, mend what is named, or unset SUREACT_KERNELS to compute "
        "torch's reference."
    )


def _words(tensors: Iterable[torch.Tensor]) -> str:
    return ", ".join(f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)} on {t.device}" for t in tensors)


@cache
def _guarded(op: str, device_index: int | None) -> _Guarded | None:
    try:
        return _Guarded(op, _module(f"sureact_kernels.triton.{op}"), device_index)
    except ImportError as error:
        disable(op, str(error))
        return None


class _Guarded:
    """A Triton version that launches on the device of its tensors, and is disabled when it does not compile."""

    def __init__(self, op: str, module: Any, device_index: int | None) -> None:
        self.module = module
        self._op = op
        self._device_index = -1 if device_index is None else device_index

    def __getattr__(self, name: str) -> Any:
        """Return the launcher of that name, guarded, and keep it; an op's module may have several."""
        launch = getattr(self.module, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                with torch.cuda.device(self._device_index):
                    return launch(*args, **kwargs)
            except (KernelInputError, torch.OutOfMemoryError, torch.AcceleratorError):
                raise  # these speak of the tensors or the device, not of the kernel
            # Triton, its compilers and its driver raise whatever they like, and the reference has an answer.
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                if is_version_required():
                    given = [arg for arg in args if isinstance(arg, torch.Tensor)]
                    raise KernelInputError(_refusal(self._op, given, reason)) from error
            return _reference_instead(self._op, name, reason, args, kwargs)

        setattr(self, name, run)
        return run


def _reference_instead(op: str, name: str, reason: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute function `name` of an op through its contract, which asks `version_of` again and gets the reference."""
    _failing.add(op)
    try:
        result = getattr(_module(f"sureact_kernels.{op}"), name)(*args, **kwargs)
    finally:
        _failing.discard(op)
    # Where the reference fails too, the arguments are at fault, and the op stays on for the next request.
    disable(op, reason)
    return result


@cache
def _module(name: str) -> Any:
    return importlib.import_module(name)
