"""Products with a weight matrix: dense, int8, int4 or fp8, with one order of summation however many rows there are."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it

from sureact_kernels.arguments import check_dtype
from sureact_kernels.dispatch import is_on_gpu, version_on_gpu
from sureact_kernels.errors import KernelInputError
from sureact_kernels.int4_product import PackedInt4, int4_product, pack_int4
from sureact_kernels.int8_product import PackedInt8, int8_product

ROW_MULTIPLE = 4
"""Dense CPU products agree bit for bit between row counts that are multiples of this (measured on AVX-512; the tests
check the machine they run on)."""


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
    """`[out_features]`, bfloat16; float32 beside `packed`."""
    packed: PackedInt8 | None = None
    """The same matrix as `int8_product` takes it, from `pack_int8`; without it, torch's own product is used."""

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
    """`(q - 8) * scale + zero` in groups along in_features."""

    nibbles: torch.Tensor
    """`[out_features, in_features / 2]`, uint8: steps `q` of 0 to 15, those of even columns in the low halves."""
    scales_and_zeros: torch.Tensor
    """`[in_features / group_size, out_features, 2]`, bfloat16."""
    group_size: int
    """Columns that share a scale and a zero: 32, 64, 128 or 256."""
    packed: PackedInt4 | None = None
    """The same matrix as `int4_product` takes it, from `pack_int4`; without it, every product packs it anew."""

    @property
    def out_features(self) -> int:
        """Rows of the matrix."""
        return self.nibbles.shape[0]

    @property
    def num_bytes(self) -> int:
        """Bytes that a product reads of it."""
        return self.nibbles.nbytes + self.scales_and_zeros.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Fp8Weight:
    """`weight[n] * scales[n]`, one scale per output row."""

    weight: torch.Tensor
    """`[out_features, in_features]`, float8_e4m3fn, contiguous."""
    scales: torch.Tensor
    """`[out_features]`, float32."""

    @property
    def out_features(self) -> int:
        """Rows of the matrix."""
        return self.weight.shape[0]

    @property
    def num_bytes(self) -> int:
        """Bytes that a product reads of it."""
        return self.weight.nbytes + self.scales.nbytes


LinearWeight = DenseWeight | Int8Weight | Int4Weight | Fp8Weight


def linear(
    x: torch.Tensor, weight: LinearWeight, bias: torch.Tensor | None = None, *, invariant: bool = True
) -> torch.Tensor:
    """Multiply rows by a weight matrix.

        out[t, n] = sum_k x[t, k] * weight[n, k] + bias[n]

    With `invariant`, a row's result has the same bits whatever other rows are in `x`; int8, int4 and fp8 products
    always give that. Of the references it was tested on CPUs only; on a GPU without Triton it is not certain.

    Sums in float32, for packed int8 and int4 weights as `int8_product` and `int4_product` say. int8 that is not packed
    and a dense weight in bfloat16 round `x` to bfloat16.

    Args:
        x: `[num_tokens, in_features]`, float32 or bfloat16; for a dense weight its dtype or float32.
        weight: `[out_features, in_features]` in one of the four forms.
        bias: `[out_features]`, dtype of `x`.
        invariant: whether each row must be independent of the number of rows.

    Returns:
        `[num_tokens, out_features]`, dtype of `x`, new.

    Raises:
        KernelInputError: `x` is not a matrix of a dtype that the weight takes.
    """
    if x.dim() != 2:
        raise KernelInputError(f"linear: x has shape {list(x.shape)}; it must be [num_tokens, in_features].")
    is_dense = isinstance(weight, DenseWeight)
    if is_on_gpu(x) and (invariant or not is_dense):
        version = version_on_gpu("linear", x, *tensors_of(weight))
        if version is not None:
            return version.linear(x, weight, bias)
    if is_dense:
        return _dense(x, weight.weight, bias, invariant=invariant)
    check_dtype("linear", "x", x, (torch.bfloat16, torch.float32))
    is_same = x.dtype is torch.float32
    out = _quantized(x, weight, bias if is_same else None)
    return out if is_same or bias is None else out.add_(bias)


def tensors_of(weight: LinearWeight) -> tuple[torch.Tensor, ...]:
    """Return what `dispatch` judges a weight by: its values, and the scales of one that is not dense."""
    if isinstance(weight, DenseWeight):
        return (weight.weight,)
    if isinstance(weight, Int4Weight):
        return weight.nibbles, weight.scales_and_zeros
    return weight.weight, weight.scales


def dequantized(weight: Int8Weight | Int4Weight | Fp8Weight) -> torch.Tensor:
    """Return the matrix that a weight stands for: `[out_features, in_features]`, float32, new."""
    if not isinstance(weight, Int4Weight):
        return weight.weight.float() * weight.scales.float().unsqueeze(1)
    steps = torch.stack((weight.nibbles & 15, weight.nibbles >> 4), dim=-1).flatten(1).float() - 8
    scales, zeros = weight.scales_and_zeros.float().permute(2, 1, 0).repeat_interleave(weight.group_size, dim=2)
    return steps * scales + zeros


def _dense(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, invariant: bool) -> torch.Tensor:
    if x.dtype != weight.dtype:
        check_dtype("linear", "x", x, (weight.dtype, torch.float32))
        out = _dense(x.to(weight.dtype), weight, None, invariant=invariant).float()
        return out if bias is None else out.add_(bias)
    missing = -x.shape[0] % ROW_MULTIPLE if invariant else 0
    if not missing:
        return F.linear(x, weight, bias)
    return F.linear(F.pad(x, (0, 0, 0, missing)), weight, bias)[: x.shape[0]]


def _quantized(x: torch.Tensor, weight: Int8Weight | Int4Weight | Fp8Weight, bias: torch.Tensor | None) -> torch.Tensor:
    if isinstance(weight, Fp8Weight) or x.device.type != "cpu":
        return _dense(x.float(), dequantized(weight), bias, invariant=True).to(x.dtype)
    if isinstance(weight, Int4Weight):
        packed = weight.packed or pack_int4(weight.nibbles, weight.scales_and_zeros, weight.group_size)
        return int4_product(x.float(), packed, bias).to(x.dtype)
    if weight.packed is not None:
        return int8_product(x.float(), weight.packed, weight.scales, bias).to(x.dtype)
    out = torch.ops.aten._weight_int8pack_mm(x.to(torch.bfloat16).contiguous(), weight.weight, weight.scales).to(
        x.dtype
    )
    return out if bias is None else out.add_(bias)
