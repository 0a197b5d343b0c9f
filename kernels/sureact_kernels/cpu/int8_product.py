"""The int8 product in C++."""

import torch

from sureact_kernels.cpu.arena import ARENA
from sureact_kernels.cpu.library import call


def takes(weight: torch.Tensor) -> bool:
    """Tell whether this version multiplies with such a matrix."""
    return weight.shape[0] % 16 == 0 and weight.shape[1] % 16 == 0


def pack_int8(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return an int8 matrix as the product reads it, and 128 times the sum of each row, int32."""
    weight = weight.contiguous()
    values = ARENA.empty(weight.numel()).view(torch.int8).view(weight.shape)
    sums = weight.new_empty(weight.shape[0], dtype=torch.int32)
    call("pack_int8", weight, *weight.shape, values, sums)
    return values, sums


def int8_product(
    x: torch.Tensor, values: torch.Tensor, sums: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """See `sureact_kernels.int8_product`."""
    x = x.contiguous()
    num_rows, out_features = x.shape[0], scales.shape[0]
    out = x.new_empty((num_rows, out_features))
    call("int8_product", x, num_rows, values, sums, scales, bias, out, out_features, x.shape[1])
    return out
