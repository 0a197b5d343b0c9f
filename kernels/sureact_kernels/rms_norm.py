"""Root-mean-square normalization of rows."""

import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it

from sureact_kernels.arguments import FLOAT_DTYPES, check_dtype, check_shape
from sureact_kernels.cpu.library import library_for


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
    library = library_for(x, weight)
    if library is None or x.shape[-1] % 16:
        return F.rms_norm(x, weight.shape, weight, eps)
    x, size = x.contiguous(), x.shape[-1]
    out = torch.empty_like(x)
    library.sureact_rms_norm(
        x.data_ptr(), weight.data_ptr(), eps, out.data_ptr(), x.numel() // size, size, torch.get_num_threads()
    )
    return out
