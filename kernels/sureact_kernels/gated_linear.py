"""The first half of a SwiGLU block: the product with gate and up in one matrix, and the gate."""

import torch

from sureact_kernels.dispatch import is_on_gpu, version_on_gpu
from sureact_kernels.errors import KernelInputError
from sureact_kernels.linear import LinearWeight, linear, tensors_of
from sureact_kernels.silu_and_mul import silu_and_mul


def gated_linear(x: torch.Tensor, weight: LinearWeight, *, invariant: bool = True) -> torch.Tensor:
    """Multiply rows by a matrix of gate and up, and the SiLU of the gate by up.

        out[t, i] = silu(y[t, i]) * y[t, intermediate_size + i],   y = linear(x, weight)

    The reference rounds `y` to the dtype of `x`; a version may keep it in float32. With `invariant`, a row's result has
    the same bits whatever other rows are in `x`, as with `linear`.

    Args:
        x: `[num_tokens, in_features]`, as `linear` takes it.
        weight: `[2 * intermediate_size, in_features]`, the rows of the gate first.
        invariant: whether each row must be independent of the number of rows.

    Returns:
        `[num_tokens, intermediate_size]`, dtype of `x`, new.

    Raises:
        KernelInputError: the number of rows of `weight` is odd, or `linear` does not take `x`.

    Source: Shazeer 2020, arXiv:2002.05202.
    """
    if weight.out_features % 2:
        raise KernelInputError(f"gated_linear: weight has {weight.out_features} rows; their number must be even.")
    if is_on_gpu(x) and invariant:
        version = version_on_gpu("gated_linear", x, *tensors_of(weight))
        if version is not None:
            return version.gated_linear(x, weight)
    return silu_and_mul(linear(x, weight, invariant=invariant))
