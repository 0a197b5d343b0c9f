import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sureact.weights import quantization
from sureact.weights.quantization import (
    can_quantize_int4,
    can_quantize_int8,
    quantize_fp8,
    quantize_int4,
    quantize_int8,
)
from sureact_kernels.linear import dequantized, linear


def _weight(seed: int, rows: int = 32, columns: int = 64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator) * torch.rand(rows, 1, generator=generator)


def _int4_values(weight: torch.Tensor, group_size: int) -> torch.Tensor:
    """Read the quantized matrix back through the product with the identity."""
    identity = torch.eye(weight.shape[1], dtype=torch.bfloat16)
    return linear(identity, quantize_int4(weight, group_size)).T.float()


@given(st.integers(0, 10_000))
def test_int8_is_off_by_at_most_one_step_and_half_on_average(seed: int) -> None:
    weight = _weight(seed)
    quantized = quantize_int8(weight)
    scales = quantized.scales.float()[:, None]
    error = (quantized.weight.float() * scales - weight).abs()
    # Half a step for what lies inside; the rounded scale may leave the largest value up to one step outside.
    assert (error <= scales * 1.01).all()
    assert (error.mean(dim=1) <= 0.5 * scales[:, 0]).all()
    assert quantized.weight.dtype == torch.int8
    assert quantized.scales.dtype == torch.bfloat16


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([32, 64]))
def test_int4_is_closer_than_rounding_between_the_extremes(seed: int, group_size: int) -> None:
    weight = _weight(seed, columns=128)
    groups = weight.unflatten(1, (-1, group_size))
    low, high = groups.amin(2, keepdim=True), groups.amax(2, keepdim=True)
    step = (high - low) / 15
    plain = (((groups - low) / step).round() * step + low).flatten(1)
    error = (_int4_values(weight, group_size) - weight).square().mean()
    # bfloat16 scales and zeros cost a little of what the choice of bounds wins.
    assert error <= 1.02 * (plain - weight).square().mean()


def test_int4_reads_back_sixteen_levels_exactly() -> None:
    levels = torch.arange(16, dtype=torch.float32) - 8
    weight = levels.repeat(16, 4)
    assert torch.equal(_int4_values(weight, 32), weight)


@given(st.integers(0, 10_000))
def test_fp8_is_off_by_half_a_step_of_its_mantissa_at_most(seed: int) -> None:
    weight = _weight(seed)
    quantized = quantize_fp8(weight)
    assert (quantized.weight.dtype, quantized.scales.dtype) == (torch.float8_e4m3fn, torch.float32)
    found = quantized.weight.float() * quantized.scales[:, None]
    # Of three bits, or of the smallest numbers, which lie 2**-9 apart.
    error = (found - weight).abs() - 1e-6 * weight.abs()
    assert (error <= torch.maximum(weight.abs() * 2.0**-4, quantized.scales[:, None] * 2.0**-10)).all()


def test_fp8_lays_the_largest_weight_of_a_row_on_the_largest_number() -> None:
    weight = _weight(3).bfloat16()
    largest = quantize_fp8(weight).weight.float().abs().amax(dim=1)
    assert torch.equal(largest, torch.full((32,), 448.0))


@pytest.mark.parametrize("value", [0.0, 1.5, -2.0])
def test_constant_rows_survive(value: float) -> None:
    weight = torch.full((16, 32), value)
    quantized = quantize_int8(weight)
    torch.testing.assert_close(quantized.weight.float() * quantized.scales.float()[:, None], weight, rtol=0.01, atol=0)
    torch.testing.assert_close(_int4_values(weight, 32), weight, rtol=0.01, atol=0)
    torch.testing.assert_close(dequantized(quantize_fp8(weight)), weight, rtol=1e-6, atol=0)


def test_chunks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = _weight(1, rows=48)
    int8, int4, fp8 = quantize_int8(weight), quantize_int4(weight), quantize_fp8(weight)
    monkeypatch.setattr(quantization, "_CHUNK_VALUES", 64 * 5)
    assert torch.equal(quantize_int8(weight).weight, int8.weight)
    assert torch.equal(dequantized(quantize_fp8(weight)), dequantized(fp8))
    assert torch.equal(quantize_int4(weight).nibbles, int4.nibbles)
    assert torch.equal(quantize_int4(weight).scales_and_zeros, int4.scales_and_zeros)


def test_quantized_forms_have_the_layout_of_the_product() -> None:
    weight = _weight(2, rows=16, columns=64)
    int4 = quantize_int4(weight)
    assert (int4.nibbles.shape, int4.nibbles.dtype) == ((16, 32), torch.uint8)
    assert (int4.scales_and_zeros.shape, int4.scales_and_zeros.dtype) == ((2, 16, 2), torch.bfloat16)
    assert quantize_int8(weight).scales.shape == (16,)


def test_shapes_that_a_product_does_not_take_are_known() -> None:
    assert can_quantize_int8((7, 32))
    assert not can_quantize_int8((16, 24))
    assert can_quantize_int4((16, 32))
    assert not can_quantize_int4((8, 32))
    assert not can_quantize_int4((16, 48))
