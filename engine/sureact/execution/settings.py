"""What `auto` means on this machine."""

import os
from typing import Literal

import torch

from sureact.config import Determinism, Dtype, KVCacheDtype, Quantization
from sureact.errors import ConfigError
from sureact_kernels.dispatch import reason_without_triton
from sureact_kernels.errors import KernelInputError


def resolve_device(name: str) -> torch.device:
    """Return the device that `name` (`auto`, `cpu`, `cuda`, `cuda:1`) stands for.

    Raises:
        ConfigError: the name is no device, or this torch cannot reach it.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device is {name!r}; it must be auto, cpu, cuda or cuda:N.") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device is {name!r}; sureact runs on cpu and cuda.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"device is {name!r}; this torch ({torch.__version__}) sees {torch.cuda.device_count()} CUDA devices. "
            "Install a CUDA build of torch, or use device='cpu'."
        )
    return device


def resolve_quantization(asked: Quantization | Literal["auto"], device: torch.device) -> Quantization:
    """Return the form of the weight matrices.

    Raises:
        ConfigError: fp8 on a CPU, which has no product for it.
    """
    if asked == "auto":
        return "int8" if device.type == "cpu" else "none"
    if asked == "fp8" and device.type == "cpu":
        raise ConfigError("quantization is 'fp8' on a CPU; it runs on a GPU only. Use int8, int4 or none.")
    return asked


_DTYPES: dict[Dtype, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def dtype_name(dtype: torch.dtype) -> Dtype:
    """Return the name of a dtype as settings spell it."""
    return next(name for name, candidate in _DTYPES.items() if candidate == dtype)


def resolve_dtype(asked: Dtype | Literal["auto"], quantization: Quantization) -> torch.dtype:
    """Return the dtype of the cache and of what is not quantized.

    Raises:
        ConfigError: beside quantized matrices both are bfloat16.
    """
    if asked == "auto":
        return torch.bfloat16
    if quantization != "none" and asked != "bfloat16":
        raise ConfigError(
            f"dtype is {asked!r} with quantization {quantization!r}, beside which the KV cache and all that is not "
            "quantized are bfloat16. Use dtype='bfloat16', or quantization='none'."
        )
    return _DTYPES[asked]


def resolve_kv_cache_dtype(asked: Literal["auto", "float8_e4m3"], dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of cached keys and values of a model in `dtype`."""
    return torch.float8_e4m3fn if asked == "float8_e4m3" else dtype


def kv_cache_dtype_name(dtype: torch.dtype) -> KVCacheDtype:
    """Return the name of the cache's dtype as settings spell it."""
    return "float8_e4m3" if dtype == torch.float8_e4m3fn else dtype_name(dtype)


def device_notices(device: torch.device, determinism: Determinism, kv_cache_dtype: torch.dtype) -> tuple[str, ...]:
    """Say what is slower or less certain than it could be, given where our own models run and what they keep.

    Raises:
        ConfigError: SUREACT_KERNELS has no meaning.
    """
    if device.type == "cpu":
        if kv_cache_dtype != torch.float8_e4m3fn:
            return ()
        return ("kv_cache_dtype='float8_e4m3' saves memory here but not time: on a CPU, attention then runs in torch.",)
    try:
        reason = reason_without_triton()
    except KernelInputError as error:
        raise ConfigError(str(error)) from error
    if reason is None or determinism == "fast":
        return ()
    return (
        f"Products on {device} run in torch. {reason} Whether a row's last bits depend there on the number of rows was "
        "not tested, so determinism='strict' is not certain.",
    )


def default_num_threads() -> int:
    """Return what `OMP_NUM_THREADS` says, as torch itself would read it; else one thread per physical core."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) > 0 else num_physical_cores()


def num_physical_cores() -> int:
    """Return the cores this process may use, without their hyper-threads: more threads only fight over them."""
    try:
        import psutil
    except ImportError:  # a bare machine; torch counts much the same
        return torch.get_num_threads()
    allowed = len(psutil.Process().cpu_affinity() or [0])
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed))
