"""`rms_norm` in C++."""

import torch

from sureact_kernels.cpu.library import are_float32, call


def takes(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Tell whether this version computes these."""
    return x.shape[-1] % 16 == 0 and are_float32(x, weight)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """See `sureact_kernels.rms_norm`."""
    x, weight, size = x.contiguous(), weight.contiguous(), x.shape[-1]
    out = torch.empty_like(x)
    call("rms_norm", x, weight, eps, out, x.numel() // size, size)
    return out
