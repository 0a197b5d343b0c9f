import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sureact.weights import quantization
from sureact.weights.error_feedback import quantize_int4_for_inputs
from sureact.weights.quantization import quantize_int4
from sureact_kernels.linear import Int4Weight, linear


def _random(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _correlated_moments(seed: int, num_columns: int) -> torch.Tensor:
    inputs = _random(seed, 4 * num_columns, num_columns) @ _random(seed + 1, num_columns, num_columns)
    return inputs.T @ inputs / len(inputs)


def _values(weight: Int4Weight | None, num_columns: int) -> torch.Tensor:
    """Read the quantized matrix back through the product with the identity."""
    assert weight is not None
    return linear(torch.eye(num_columns, dtype=torch.bfloat16), weight).T.float()


def _cost(rounded: torch.Tensor, weight: torch.Tensor, moments: torch.Tensor) -> float:
    """What rounding changes in the products: mean over inputs of the squared difference."""
    lost = rounded - weight
    return float(((lost @ moments) * lost).sum())


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([32, 64]))
def test_products_with_correlated_inputs_change_far_less_than_by_rounding_to_nearest(
    seed: int, group_size: int
) -> None:
    weight, moments = _random(seed, 32, 192), _correlated_moments(seed, 192)
    nearest = _values(quantize_int4(weight, group_size), 192)
    rounded = _values(quantize_int4_for_inputs(weight, moments.clone(), group_size), 192)
    assert _cost(rounded, weight, moments) < 0.85 * _cost(nearest, weight, moments)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.25, 1.0, 3.0]), st.sampled_from([-8.0, 0.0, 4.0]))
def test_weights_that_sixteen_steps_can_spell_come_back_exactly(seed: int, scale: float, zero: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    steps = torch.stack([torch.randperm(16, generator=generator).repeat(2) for _ in range(16 * 4)]).view(16, 128)
    weight = (steps - 8) * scale + zero
    moments = _correlated_moments(seed, 128)
    assert torch.equal(_values(quantize_int4_for_inputs(weight, moments), 128), weight)


def test_the_same_input_gives_the_same_bits() -> None:
    weight, moments = _random(1, 32, 128), _correlated_moments(2, 128)
    first, second = (quantize_int4_for_inputs(weight, moments.clone()) for _ in range(2))
    assert first is not None
    assert second is not None
    assert torch.equal(first.nibbles, second.nibbles)
    assert torch.equal(first.scales_and_zeros, second.scales_and_zeros)


def test_chunks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, moments = _random(3, 48, 64), _correlated_moments(4, 64)
    whole = _values(quantize_int4_for_inputs(weight, moments.clone()), 64)
    monkeypatch.setattr(quantization, "_CHUNK_VALUES", 64 * 16)
    torch.testing.assert_close(_values(quantize_int4_for_inputs(weight, moments), 64), whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.5, -2.0])
def test_constant_groups_survive(value: float) -> None:
    weight = _random(5, 16, 96)
    weight[:, 32:64] = value
    rounded = _values(quantize_int4_for_inputs(weight, torch.eye(96)), 96)
    torch.testing.assert_close(rounded[:, 32:64], weight[:, 32:64], rtol=0.01, atol=0)


def test_a_matrix_of_zeros_stays_one() -> None:
    moments = _correlated_moments(6, 64)
    assert not _values(quantize_int4_for_inputs(torch.zeros(16, 64), moments), 64).any()


def test_inputs_that_hardly_vary_are_enough() -> None:
    weight, direction = _random(7, 16, 64), _random(8, 64)
    moments = torch.outer(direction, direction)
    rounded = _values(quantize_int4_for_inputs(weight, moments.clone()), 64)
    assert rounded.isfinite().all()
    assert _cost(rounded, weight, moments) < _cost(_values(quantize_int4(weight), 64), weight, moments)


def test_a_column_that_is_never_used_does_no_harm() -> None:
    weight, moments = _random(9, 16, 64), _correlated_moments(10, 64)
    moments[5] = 0
    moments[:, 5] = 0
    assert _values(quantize_int4_for_inputs(weight, moments), 64).isfinite().all()


@pytest.mark.parametrize("value", [0.0, torch.nan, torch.inf])
def test_moments_of_no_use_are_refused(value: float) -> None:
    assert quantize_int4_for_inputs(_random(11, 16, 32), torch.full((32, 32), value)) is None
