"""Dense matrices to int8 and int4, in the layout of the CPU products. Knows nothing of files."""

import torch

from sureact_kernels.linear import Int4Weight, Int8Weight

INT4_GROUP_SIZE = 32
"""Columns that share a scale and a zero; 32 lost the least in greedy agreement."""

_CLIP_RATIOS = (1.0, 0.95, 0.9, 0.85, 0.8)
_CHUNK_VALUES = 1 << 23
"""Values quantized at a time: a head of 152,000 rows in float32, several times over, would double the memory."""


def can_quantize_int8(shape: tuple[int, ...]) -> bool:
    """Tell whether the int8 product takes a matrix `[out_features, in_features]`."""
    return shape[1] % 16 == 0


def can_quantize_int4(shape: tuple[int, ...], group_size: int = INT4_GROUP_SIZE) -> bool:
    """Tell whether the int4 product takes a matrix `[out_features, in_features]`."""
    return shape[0] % 16 == 0 and shape[1] % group_size == 0


def quantize_int8(weight: torch.Tensor) -> Int8Weight:
    """Round each row to 255 steps of its own scale.

        scales[n] = bfloat16(max_k |weight[n, k]| / 127)
        out[n, k] = round(weight[n, k] / scales[n])

    Args:
        weight: `[out_features, in_features]`, any float dtype, on the CPU; in_features a multiple of 16.
    """
    scales = (weight.abs().amax(dim=1).float() / 127).to(torch.bfloat16)
    quantized = torch.empty(weight.shape, dtype=torch.int8)
    for rows in _row_chunks(weight):
        # Dividing by the rounded scale, the one that is multiplied back, centers the error.
        steps = weight[rows].float() / _without_zeros(scales[rows].float())[:, None]
        quantized[rows] = steps.round_().clamp_(-128, 127).to(torch.int8)
    return Int8Weight(weight=quantized, scales=scales)


def quantize_int4(weight: torch.Tensor, group_size: int = INT4_GROUP_SIZE) -> Int4Weight:
    """Round each group of columns of a row to 16 steps between two bounds.

        out[n, k] = (q[n, k] - 8) * scale[g, n] + zero[g, n],   g = k // group_size

    The bounds are the group's extremes shrunk by whichever of a few ratios gives the least squared error.

    Args:
        weight: `[out_features, in_features]`, any float dtype, on the CPU; out_features a multiple of 16.
        group_size: 32, 64, 128 or 256, dividing in_features.
    """
    num_rows, num_columns = weight.shape
    quantized = torch.empty((num_rows, num_columns), dtype=torch.int32)
    scales_and_zeros = torch.empty((num_columns // group_size, num_rows, 2), dtype=torch.bfloat16)
    for rows in _row_chunks(weight):
        groups = weight[rows].float().unflatten(1, (-1, group_size))  # [rows, num_groups, group_size]
        q, scale, zero = _round_groups(groups)
        quantized[rows] = q.flatten(1).to(torch.int32)
        scales_and_zeros[:, rows] = torch.stack((scale, zero), dim=-1).squeeze(2).transpose(0, 1).to(torch.bfloat16)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(quantized, 1)
    return Int4Weight(packed=packed, scales_and_zeros=scales_and_zeros, group_size=group_size)


def _round_groups(groups: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return steps 0 to 15, scale and zero per group, each of the ratio with the least error."""
    low, high = groups.amin(dim=2, keepdim=True), groups.amax(dim=2, keepdim=True)
    best = _round_between(groups, low, high)
    least = _squared_error(groups, *best)
    for ratio in _CLIP_RATIOS[1:]:
        candidate = _round_between(groups, low * ratio, high * ratio)
        error = _squared_error(groups, *candidate)
        is_better = error < least
        best = tuple(torch.where(is_better, new, old) for new, old in zip(candidate, best, strict=True))
        least = torch.where(is_better, error, least)
    q, scale, zero = best
    return q, scale, zero


def _round_between(
    groups: torch.Tensor, low: torch.Tensor, high: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    # Rounded to bfloat16 before they are used, because that is what the product multiplies back.
    scale = ((high - low) / 15).to(torch.bfloat16).float()
    zero = (low + 8 * scale).to(torch.bfloat16).float()
    q = ((groups - zero) / _without_zeros(scale) + 8).round_().clamp_(0, 15)
    return q, scale, zero


def _squared_error(groups: torch.Tensor, q: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    return ((q - 8) * scale + zero - groups).square_().sum(dim=2, keepdim=True)


def _without_zeros(scale: torch.Tensor) -> torch.Tensor:
    """Replace the scale of constant rows or groups, whose steps do not matter, so that nothing divides by zero."""
    return torch.where(scale == 0, 1.0, scale)


def _row_chunks(weight: torch.Tensor) -> list[slice]:
    num_rows, num_columns = weight.shape
    step = max(1, _CHUNK_VALUES // num_columns)
    return [slice(start, min(start + step, num_rows)) for start in range(0, num_rows, step)]
