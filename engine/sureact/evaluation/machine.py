"""The machine and the versions that a number was measured with."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("sureact", "torch", "transformers", "triton", "llguidance", "outlines")

_FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of what the speed depends on; None for what is not installed."""
    return {"python": platform.python_version(), **{package: _version(package) for package in PACKAGES}}


def hardware() -> dict[str, object]:
    """Return processor, cores, memory in bytes, the vector instructions that matter, and GPUs."""
    import psutil
    import torch

    return {
        "cpu": cpu_name(),
        "physical_cores": psutil.cpu_count(logical=False),
        "usable_cpus": len(psutil.Process().cpu_affinity() or []) if hasattr(os, "sched_getaffinity") else None,
        "cpu_features": cpu_features(),
        "memory_bytes": psutil.virtual_memory().total,
        "available_memory_bytes": psutil.virtual_memory().available,
        "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
    }


def cpu_name() -> str:
    """Return what the processor calls itself on Linux; elsewhere what Python knows of it."""
    return _cpu_info().get("model name") or platform.processor() or platform.machine()


def cpu_features() -> list[str]:
    """Return which of the vector instructions that matter the processor has, as Linux names them; empty elsewhere."""
    flags = _cpu_info().get("flags", "").split()
    return [feature for feature in _FEATURES if feature in flags]


def _cpu_info() -> dict[str, str]:
    """Return what Linux tells of the first processor."""
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0].splitlines()
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
