"""Root-mean-square normalization of rows."""

import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it

from sureact_kernels.arguments import FLOAT_DTYPES, check_dtype, check_shape
from sureact_kernels.dispatch import version_of


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Scale each row of `x` to unit root mean square, then by `weight`.

        out[t, d] = x[t, d] / sqrt(mean_d(x[t] ** 2) + eps) * weight[d]

    Computes in float32 and rounds once.

    Args:
        x: `[..., hidden_size]`, float16, bfloat16 or float32.
        weight: `[hidden_size]`, dtype of `x`.
        eps: added to the mean square, > 0.

    Returns:
        Shape and dtype of `x`, new.

    Raises:
        KernelInputError: `weight` does not match the last dimension, or the dtype is not supported.

    Source: Zhang and Sennrich 2019, arXiv:1910.07467.
    """
    check_dtype("rms_norm", "x", x, FLOAT_DTYPES)
    check_shape("rms_norm", "weight", weight, (x.shape[-1],))
    version = version_of("rms_norm", x, weight)
    return F.rms_norm(x, weight.shape, weight, eps) if version is None else version.rms_norm(x, weight, eps)
