"""Checks of the tensors given to an op, with one form of message: the op, the argument, what it is, what it must be."""

import torch

from sureact_kernels.errors import KernelInputError

FLOAT_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def check_shape(op: str, name: str, tensor: torch.Tensor, expected: tuple[int | None, ...]) -> None:
    """Raise unless `tensor` has the `expected` shape; None allows any size in a dimension."""
    shape = tuple(tensor.shape)
    fits = len(shape) == len(expected) and all(e in (None, s) for s, e in zip(shape, expected, strict=True))
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in expected)
        raise KernelInputError(f"{op}: {name} has shape {list(shape)}; it must be [{wanted}].")


def check_dtype(op: str, name: str, tensor: torch.Tensor, allowed: tuple[torch.dtype, ...]) -> None:
    """Raise unless the dtype of `tensor` is one of `allowed`."""
    if tensor.dtype not in allowed:
        raise KernelInputError(f"{op}: {name} has dtype {tensor.dtype}; it must be one of {list(allowed)}.")


def check_device(op: str, name: str, tensor: torch.Tensor, device: torch.device) -> None:
    """Raise unless `tensor` is on `device`."""
    if tensor.device != device:
        raise KernelInputError(f"{op}: {name} is on {tensor.device}; it must be on {device}.")
