"""Products with a weight matrix: dense, int8 or int4, with one order of summation however many rows there are."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it

from sureact_kernels.errors import KernelInputError

ROW_MULTIPLE = 4
"""Dense CPU products agree bit for bit between row counts that are multiples of this (measured on AVX-512; the tests
check the machine they run on)."""

FAST_MIN_ROWS = 32
"""Rows from which the non-invariant int8 product converts the weight to bfloat16; below, converting costs more."""


@dataclass(frozen=True, slots=True, eq=False)
class DenseWeight:
    """A weight in float32, bfloat16 or float16."""

    weight: torch.Tensor
    """`[out_features, in_features]`."""

    @property
    def out_features(self) -> int:
        """Rows of the matrix."""
        return self.weight.shape[0]

    @property
    def num_bytes(self) -> int:
        """Bytes that a product reads of it."""
        return self.weight.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Int8Weight:
    """`weight[n] * scales[n]`, one scale per output row."""

    weight: torch.Tensor
    """`[out_features, in_features]`, int8, contiguous; in_features a multiple of 16."""
    scales: torch.Tensor
    """`[out_features]`, bfloat16."""

    @property
    def out_features(self) -> int:
        """Rows of the matrix."""
        return self.weight.shape[0]

    @property
    def num_bytes(self) -> int:
        """Bytes that a product reads of it."""
        return self.weight.nbytes + self.scales.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Int4Weight:
    """`(q - 8) * scale + zero` in groups along in_features, packed as torch's CPU product wants it."""

    packed: torch.Tensor
    """`[out_features, in_features / 2]`, uint8, from `torch.ops.aten._convert_weight_to_int4pack_for_cpu`."""
    scales_and_zeros: torch.Tensor
    """`[in_features / group_size, out_features, 2]`, bfloat16."""
    group_size: int
    """Columns that share a scale and a zero: 32, 64, 128 or 256."""

    @property
    def out_features(self) -> int:
        """Rows of the matrix."""
        return self.scales_and_zeros.shape[1]

    @property
    def num_bytes(self) -> int:
        """Bytes that a product reads of it."""
        return self.packed.nbytes + self.scales_and_zeros.nbytes


LinearWeight = DenseWeight | Int8Weight | Int4Weight


def linear(
    x: torch.Tensor, weight: LinearWeight, bias: torch.Tensor | None = None, *, invariant: bool = True
) -> torch.Tensor:
    """Multiply rows by a weight matrix.

        out[t, n] = sum_k x[t, k] * weight[n, k] + bias[n]

    With `invariant`, a row's result has the same bits whatever other rows are in `x`. Without, products of many rows
    may sum in another order and run faster. Accumulates in float32.

    Args:
        x: `[num_tokens, in_features]`; the dtype of a dense weight, bfloat16 for int8 and int4.
        weight: `[out_features, in_features]` in one of the three forms.
        bias: `[out_features]`, dtype of `x`.
        invariant: whether each row must be independent of the number of rows.

    Returns:
        `[num_tokens, out_features]`, dtype of `x`, new.

    Raises:
        KernelInputError: `x` is not a matrix of the dtype that the weight needs.
    """
    if x.dim() != 2:
        raise KernelInputError(f"linear: x has shape {list(x.shape)}; it must be [num_tokens, in_features].")
    if isinstance(weight, DenseWeight):
        return _dense(x, weight, bias, invariant=invariant)
    if x.dtype != torch.bfloat16:
        raise KernelInputError(f"linear: x has dtype {x.dtype}; int8 and int4 weights need torch.bfloat16.")
    if isinstance(weight, Int8Weight):
        out = _int8(x, weight, invariant=invariant)
    else:
        out = torch.ops.aten._weight_int4pack_mm_for_cpu(
            x.contiguous(), weight.packed, weight.group_size, weight.scales_and_zeros
        )
    return out if bias is None else out.add_(bias)


def _dense(x: torch.Tensor, weight: DenseWeight, bias: torch.Tensor | None, *, invariant: bool) -> torch.Tensor:
    if x.dtype != weight.weight.dtype:
        raise KernelInputError(f"linear: x has dtype {x.dtype}; the weight has {weight.weight.dtype}.")
    missing = -x.shape[0] % ROW_MULTIPLE if invariant else 0
    if not missing:
        return F.linear(x, weight.weight, bias)
    return F.linear(F.pad(x, (0, 0, 0, missing)), weight.weight, bias)[: x.shape[0]]


def _int8(x: torch.Tensor, weight: Int8Weight, *, invariant: bool) -> torch.Tensor:
    if invariant or x.shape[0] < FAST_MIN_ROWS:
        return torch.ops.aten._weight_int8pack_mm(x.contiguous(), weight.weight, weight.scales)
    # Every int8 value is exact in bfloat16, so scaling the product instead of the weight loses nothing.
    return F.linear(x, weight.weight.to(torch.bfloat16)).mul_(weight.scales)
