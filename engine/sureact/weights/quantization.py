"""Dense matrices to int8, int4 and fp8. Knows nothing of files."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sureact_kernels.int4_product import to_nibbles
from sureact_kernels.linear import Fp8Weight, Int4Weight, Int8Weight

INT4_GROUP_SIZE = 32
"""Columns that share a scale and a zero; 32 lost the least in greedy agreement."""

_CLIP_RATIOS = (0.95, 0.9, 0.85, 0.8)
_NUM_FITS = 2
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
    for rows in row_chunks(weight):
        # Dividing by the rounded scale, the one that is multiplied back, centers the error.
        steps = weight[rows].float() / without_zeros(scales[rows].float())[:, None]
        quantized[rows] = steps.round_().clamp_(-128, 127).to(torch.int8)
    return Int8Weight(weight=quantized, scales=scales)


@dataclass(frozen=True, slots=True)
class Int4Bounds:
    """Where the 16 steps of each group lie: step `q` stands for `(q - 8) * scale + zero`."""

    scale: torch.Tensor
    """`[num_rows, num_groups]`, float32 that bfloat16 holds exactly, because the product multiplies that back."""
    zero: torch.Tensor
    """Like `scale`."""

    @classmethod
    def rounded(cls, scale: torch.Tensor, zero: torch.Tensor) -> Int4Bounds:
        """Round both to what bfloat16 holds."""
        return cls(scale.to(torch.bfloat16).float(), zero.to(torch.bfloat16).float())

    @classmethod
    def between(cls, low: torch.Tensor, high: torch.Tensor) -> Int4Bounds:
        """Lay the steps from `low` to `high`, `[num_rows, num_groups]` each."""
        scale = ((high - low) / 15).to(torch.bfloat16).float()
        return cls.rounded(scale, low + 8 * scale)

    def round(self, groups: torch.Tensor) -> torch.Tensor:
        """Return the nearest steps, -8 to 7, of groups `[num_rows, num_groups, group_size]`, in float32."""
        return ((groups - self.zero[..., None]) / without_zeros(self.scale)[..., None]).round_().clamp_(-8, 7)

    def error(self, groups: torch.Tensor, importance: torch.Tensor) -> torch.Tensor:
        """Return what rounding costs each group: squared errors times `importance`, added up."""
        rounded = self.round(groups).mul_(self.scale[..., None]).add_(self.zero[..., None])
        return rounded.sub_(groups).square_().mul_(importance).sum(dim=2)

    def where(self, is_better: torch.Tensor, other: Int4Bounds) -> Int4Bounds:
        """Return the bounds of `other` for the groups where `is_better`, and these elsewhere."""
        return Int4Bounds(
            torch.where(is_better, other.scale, self.scale), torch.where(is_better, other.zero, self.zero)
        )

    def scales_and_zeros(self) -> torch.Tensor:
        """Return both as the product takes them: `[num_groups, num_rows, 2]`, bfloat16."""
        return torch.stack((self.scale, self.zero), dim=-1).transpose(0, 1).to(torch.bfloat16)


def fit_int4_bounds(groups: torch.Tensor, importance: torch.Tensor) -> Int4Bounds:
    """Find bounds for each group of columns that cost little under rounding to nearest.

    The group's extremes are shrunk by whichever of a few ratios costs least; then scale and zero are fitted to the
    steps that this gives by least squares, which is kept where it costs less, a few times.

    Args:
        groups: `[num_rows, num_groups, group_size]`, float32.
        importance: `[num_groups * group_size]`, what a squared error in each column counts.
    """
    importance = importance.view(groups.shape[1:])
    low, high = groups.amin(dim=2), groups.amax(dim=2)
    best = Int4Bounds.between(low, high)
    least = best.error(groups, importance)
    for ratio in _CLIP_RATIOS:
        best, least = _better(best, least, Int4Bounds.between(low * ratio, high * ratio), groups, importance)
    for _ in range(_NUM_FITS):
        best, least = _better(best, least, _fitted(best.round(groups), groups, importance), groups, importance)
    return best


def _better(
    best: Int4Bounds, least: torch.Tensor, candidate: Int4Bounds, groups: torch.Tensor, importance: torch.Tensor
) -> tuple[Int4Bounds, torch.Tensor]:
    """Return the bounds that cost less, group by group, and what they cost."""
    error = candidate.error(groups, importance)
    return best.where(error < least, candidate), torch.minimum(error, least)


def _fitted(steps: torch.Tensor, groups: torch.Tensor, importance: torch.Tensor) -> Int4Bounds:
    """Return the line through steps and values that has the least weighted squares, per group."""
    total = importance.sum(dim=1)
    mean_step, mean_value = (steps * importance).sum(dim=2) / total, (groups * importance).sum(dim=2) / total
    centered = (steps - mean_step[..., None]).mul_(importance)
    variance = (centered * steps).sum(dim=2)
    # A group whose steps are all the same has no slope; any scale does.
    scale = (centered * groups).sum(dim=2) / without_zeros(variance)
    scale = scale.to(torch.bfloat16).float()
    return Int4Bounds.rounded(scale, mean_value - mean_step * scale)


def quantize_int4(weight: torch.Tensor, group_size: int = INT4_GROUP_SIZE) -> Int4Weight:
    """Round each group of columns of a row to the nearest of 16 steps.

        out[n, k] = (q[n, k] - 8) * scale[g, n] + zero[g, n],   g = k // group_size

    Args:
        weight: `[out_features, in_features]`, any float dtype, on the CPU; out_features a multiple of 16.
        group_size: 32, 64, 128 or 256, dividing in_features.
    """
    num_rows, num_columns = weight.shape
    steps = torch.empty((num_rows, num_columns), dtype=torch.int32)
    scales_and_zeros = torch.empty((num_columns // group_size, num_rows, 2), dtype=torch.bfloat16)
    for rows in row_chunks(weight):
        groups = weight[rows].float().unflatten(1, (-1, group_size))
        bounds = fit_int4_bounds(groups, torch.ones(num_columns))
        steps[rows] = bounds.round(groups).add_(8).flatten(1).to(torch.int32)
        scales_and_zeros[:, rows] = bounds.scales_and_zeros()
    return Int4Weight(to_nibbles(steps), scales_and_zeros, group_size)


def quantize_fp8(weight: torch.Tensor) -> Fp8Weight:
    """Round each row to e4m3, whose largest number, 448, its scale lays on the row's largest weight.

        scales[n] = max_k |weight[n, k]| / 448
        out[n, k] = e4m3(weight[n, k] / scales[n])

    Args:
        weight: `[out_features, in_features]`, any float dtype, on any device.
    """
    scales = weight.abs().amax(dim=1).float() / 448
    quantized = torch.empty(weight.shape, dtype=torch.float8_e4m3fn, device=weight.device)
    for rows in row_chunks(weight):
        steps = weight[rows].float() / without_zeros(scales[rows])[:, None]
        quantized[rows] = steps.clamp_(-448, 448).to(torch.float8_e4m3fn)
    return Fp8Weight(quantized, scales)


def without_zeros(scale: torch.Tensor) -> torch.Tensor:
    """Replace the scale of constant rows or groups, whose steps do not matter, so that nothing divides by zero."""
    return torch.where(scale == 0, 1.0, scale)


def row_chunks(weight: torch.Tensor) -> list[slice]:
    """Cut a matrix into stretches of rows that are small enough to be computed with in float32."""
    num_rows, num_columns = weight.shape
    step = max(1, _CHUNK_VALUES // num_columns)
    return [slice(start, min(start + step, num_rows)) for start in range(0, num_rows, step)]
