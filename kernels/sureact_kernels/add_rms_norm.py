"""Residual addition followed by root-mean-square normalization."""

import torch

from sureact_kernels.arguments import check_shape
from sureact_kernels.cpu.library import library_for
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
    library = library_for(x, residual, weight)
    if library is None or x.shape[-1] % 16:
        total = residual + x
        return rms_norm(total, weight, eps), total
    check_shape("add_rms_norm", "weight", weight, (x.shape[-1],))
    x, residual = x.contiguous(), residual.contiguous()
    out, total = torch.empty_like(x), torch.empty_like(x)
    library.sureact_add_rms_norm(
        *(t.data_ptr() for t in (x, residual, weight)),
        eps,
        *(t.data_ptr() for t in (out, total)),
        x.numel() // x.shape[-1],
        x.shape[-1],
        torch.get_num_threads(),
    )
    return out, total
