"""`add_rms_norm` in C++."""

import torch

from sureact_kernels.cpu.library import are_float32, call


def takes(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> bool:
    """Tell whether this version computes these."""
    return x.shape[-1] % 16 == 0 and are_float32(x, residual, weight)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `sureact_kernels.add_rms_norm`."""
    x, residual, weight, size = x.contiguous(), residual.contiguous(), weight.contiguous(), x.shape[-1]
    out, total = torch.empty_like(x), torch.empty_like(x)
    call("add_rms_norm", x, residual, weight, eps, out, total, x.numel() // size, size)
    return out, total
