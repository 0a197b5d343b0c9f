"""int4 rounding for the inputs that a matrix really gets: what one column loses, the columns after it make up for.

With second moments `H = mean(x x^T)` of the inputs, rounding `W` to `Q` costs `sum((W - Q) H (W - Q)^T)`. Columns are
rounded one by one, those with the largest inputs first; after each, the columns still to come move by what minimizes
that cost, which a triangular factor of `H^-1` gives.
"""

import torch

from sureact.weights.quantization import (
    INT4_GROUP_SIZE,
    Int4Bounds,
    fit_int4_bounds,
    row_chunks,
    without_zeros,
)
from sureact_kernels.int4_product import to_nibbles
from sureact_kernels.linear import Int4Weight

_DAMPINGS = (0.01, 0.1, 1.0)
"""Shares of the mean second moment added to each, until the matrix can be factored."""

_BLOCK_COLUMNS = 128
"""Columns between two updates of all the columns behind them."""


def quantize_int4_for_inputs(
    weight: torch.Tensor, moments: torch.Tensor, group_size: int = INT4_GROUP_SIZE
) -> Int4Weight | None:
    """Round a matrix to int4 so that its products with typical inputs change least.

    Args:
        weight: `[out_features, in_features]`, any float dtype, on the CPU; out_features a multiple of 16.
        moments: `[in_features, in_features]`, float32: mean of `x x^T` over inputs `x`. Changed.
        group_size: 32, 64, 128 or 256, dividing in_features.

    Returns:
        None if the moments are of no use: not finite, or all zero.

    Source: Frantar et al. 2022, arXiv:2210.17323.
    """
    importance = moments.diagonal().clone()
    mean = importance.mean()
    if not (mean.isfinite() and mean > 0):
        return None
    order = importance.argsort(descending=True, stable=True)
    factor = _feedback_factor(moments[order][:, order], mean)
    if factor is None:
        return None
    importance += _DAMPINGS[0] * mean
    num_rows, num_columns = weight.shape
    steps = torch.empty((num_rows, num_columns), dtype=torch.int32)
    scales_and_zeros = torch.empty((num_columns // group_size, num_rows, 2), dtype=torch.bfloat16)
    for rows in row_chunks(weight):
        bounds = fit_int4_bounds(weight[rows].float().unflatten(1, (-1, group_size)), importance)
        steps[rows] = _round_columns(weight[rows].float().T[order], bounds, order, factor, group_size)[
            order.argsort()
        ].T
        scales_and_zeros[:, rows] = bounds.scales_and_zeros()
    return Int4Weight(to_nibbles(steps), scales_and_zeros, group_size)


def _feedback_factor(moments: torch.Tensor, mean: torch.Tensor) -> torch.Tensor | None:
    """Return the upper triangular `U` with `U^T U = moments^-1`, or None if no damping makes the moments regular."""
    for damping in _DAMPINGS:
        damped = moments.clone()
        damped.diagonal().add_(damping * mean)
        # Turned about, the lower factor L of the turned moments is upper: moments = M M^T, so U = M^-1.
        turned, failure = torch.linalg.cholesky_ex(damped.flip(0, 1))
        if failure == 0 and turned.isfinite().all():
            identity = torch.eye(len(moments))
            return torch.linalg.solve_triangular(turned.flip(0, 1), identity, upper=True)
    return None


def _round_columns(
    columns: torch.Tensor, bounds: Int4Bounds, order: torch.Tensor, factor: torch.Tensor, group_size: int
) -> torch.Tensor:
    """Return the steps, 0 to 15, of columns `[in_features, num_rows]` that come in `order`. Changes `columns`."""
    scale, zero = bounds.scale.T, bounds.zero.T  # [num_groups, num_rows]
    divisor = without_zeros(scale)
    groups = (order // group_size).tolist()
    steps = torch.empty(columns.shape, dtype=torch.int32)
    num_columns = len(columns)
    for start in range(0, num_columns, _BLOCK_COLUMNS):
        end = min(start + _BLOCK_COLUMNS, num_columns)
        errors = torch.empty_like(columns[start:end])
        for index in range(start, end):
            group, column = groups[index], columns[index]
            step = ((column - zero[group]) / divisor[group]).round_().clamp_(-8, 7)
            steps[index] = step + 8
            rounded = torch.addcmul(zero[group], step, scale[group])
            error = torch.sub(column, rounded, out=errors[index - start]).div_(factor[index, index])
            columns[index + 1 : end].addr_(factor[index, index + 1 : end], error, alpha=-1)
        columns[end:].addmm_(factor[start:end, end:].T, errors, alpha=-1)
    return steps
