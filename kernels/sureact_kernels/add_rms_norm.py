"""Residual addition followed by root-mean-square normalization."""

import torch

from sureact_kernels.arguments import check_shape
from sureact_kernels.dispatch import version_of
from sureact_kernels.rms_norm import rms_norm


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add `x` to the residual stream and normalize the sum.

        total = residual + x
        out   = rms_norm(total, weight, eps)

    Args:
        x: `[num_tokens, hidden_size]`, output of the previous sublayer.
        residual: `[num_tokens, hidden_size]`, dtype of `x`; not changed.
        weight: `[hidden_size]`, dtype of `x`.
        eps: added to the mean square, > 0.

    Returns:
        `(out, total)`, each `[num_tokens, hidden_size]` in the dtype of `x`, new.

    Raises:
        KernelInputError: shapes differ, or the dtype is not supported.
    """
    check_shape("add_rms_norm", "residual", residual, tuple(x.shape))
    check_shape("add_rms_norm", "weight", weight, (x.shape[-1],))
    version = version_of("add_rms_norm", x, residual, weight)
    if version is not None:
        return version.add_rms_norm(x, residual, weight, eps)
    total = residual + x
    return rms_norm(total, weight, eps), total
