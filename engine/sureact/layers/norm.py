"""Root-mean-square normalization with and without the residual addition."""

import torch

from sureact_kernels.add_rms_norm import add_rms_norm
from sureact_kernels.rms_norm import rms_norm


class RmsNorm:
    """RMSNorm over the last dimension."""

    __slots__ = ("eps", "weight")

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        self.weight = weight
        self.eps = eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize `x`."""
        return rms_norm(x, self.weight, self.eps)

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the normalized sum of `x` and `residual`, and the sum."""
        return add_rms_norm(x, residual, self.weight, self.eps)
