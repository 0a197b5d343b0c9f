"""The product of float rows and an int4 matrix in groups: integers within a group, float32 over the groups."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sureact_kernels.cpu import int4_product as compiled
from sureact_kernels.cpu.library import library

_PACKED_ROWS = 64
"""Rows that torch packs together, a multiple of what any CPU packs; also those of a block of the C++ op."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedInt4:
    """An int4 matrix in the layout of `int4_product`."""

    values: torch.Tensor
    """uint8: `[out_features / 16, in_features / 32, 320]` in blocks as the C++ op reads them, with scales and zeros; or
    `[out_features, in_features / 2]` as torch's product reads it."""
    scales_and_zeros: torch.Tensor | None
    """`[in_features / group_size, out_features, 2]`, bfloat16, for torch's product. None for the C++ op."""
    group_size: int


def int4_product(x: torch.Tensor, packed: PackedInt4, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Multiply rows by an int4 matrix.

        out[t, n] = sum_k x[t, k] * ((q[n, k] - 8) * scale[g, n] + zero[g, n]) + bias[n],   g = k // group_size

    The C++ op rounds `x` as `quantize_rows` does and adds up integers within a group, so that its only other rounding
    is that of the float32 sum over groups. Torch's product rounds `x` to bfloat16. Either way a row's bits depend on
    nothing but itself.

    Args:
        x: `[num_rows, in_features]`, float32, on the CPU.
        packed: the matrix, from `pack_int4`.
        bias: `[out_features]`, float32.

    Returns:
        `[num_rows, out_features]`, float32, new. A row of `x` that holds NaN or infinity gives NaN.
    """
    if packed.scales_and_zeros is None:
        return compiled.int4_product(x, packed.values, bias)
    out = torch.ops.aten._weight_int4pack_mm_for_cpu(
        x.to(torch.bfloat16).contiguous(), packed.values, packed.group_size, packed.scales_and_zeros
    ).float()
    return out if bias is None else out.add_(bias)


def pack_int4(nibbles: torch.Tensor, scales_and_zeros: torch.Tensor, group_size: int) -> PackedInt4:
    """Return a matrix in the layout of `int4_product`.

    Args:
        nibbles: `[out_features, in_features / 2]`, uint8, on the CPU: steps 0 to 15, those of even columns in the low
            half of each byte; out_features a multiple of 16.
        scales_and_zeros: `[in_features / group_size, out_features, 2]`, bfloat16.
        group_size: 32, 64, 128 or 256, dividing in_features.
    """
    if library() is not None and compiled.takes(group_size):
        return PackedInt4(compiled.pack_int4(nibbles, scales_and_zeros), None, group_size)
    return PackedInt4(_packed_for_torch(nibbles), scales_and_zeros, group_size)


def int4_blocks(packed: PackedInt4, blocks: torch.Tensor) -> PackedInt4:
    """Return the rows of some blocks of 64 rows, one block after another, copied.

    Args:
        packed: a matrix whose out_features is a multiple of 64.
        blocks: int64, which blocks.
    """
    if packed.scales_and_zeros is None:
        values = packed.values.unflatten(0, (-1, _PACKED_ROWS // 16)).index_select(0, blocks).flatten(0, 1)
        return PackedInt4(values, None, packed.group_size)
    values = packed.values.unflatten(0, (-1, _PACKED_ROWS)).index_select(0, blocks).flatten(0, 1)
    scales = packed.scales_and_zeros.unflatten(1, (-1, _PACKED_ROWS)).index_select(1, blocks).flatten(1, 2)
    return PackedInt4(values, scales, packed.group_size)


def to_nibbles(steps: torch.Tensor) -> torch.Tensor:
    """Write steps `[out_features, in_features]`, integers of 0 to 15, two to a byte, as `pack_int4` takes them."""
    return (steps[:, ::2] | (steps[:, 1::2] << 4)).to(torch.uint8)


def _packed_for_torch(nibbles: torch.Tensor) -> torch.Tensor:
    """Pack a stretch of rows at a time: torch asks for 4 bytes per step."""
    parts: list[torch.Tensor] = []
    for rows in nibbles.split(_PACKED_ROWS * 64):
        steps = torch.stack((rows & 15, rows >> 4), dim=-1).flatten(1).to(torch.int32)
        parts.append(torch.ops.aten._convert_weight_to_int4pack_for_cpu(steps, 1))
    return torch.cat(parts)
