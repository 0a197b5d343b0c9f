"""The exact integer product: equal to integer arithmetic, and the same bits for a row in any company."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sureact_kernels import int8_product as module
from sureact_kernels.int8_product import (
    MAX_IN_FEATURES,
    QuantizedRows,
    has_exact_product,
    int8_product,
    pack_int8,
    quantize_rows,
)
from sureact_kernels.testing import AWKWARD_SIZES

ROW_COUNTS = (*range(1, 41), 256)
needs_product = pytest.mark.skipif(not has_exact_product(), reason="this CPU has no exact int8 product")


def steps_of(rows: QuantizedRows) -> torch.Tensor:
    """Return the whole steps that the two planes stand for, in float64."""
    high, low = rows.planes.double().sub(128).chunk(2)
    return 256 * high + low


def statement(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Compute the formula of the docstring with int64 products."""
    rows = quantize_rows(x)
    high, low = (plane.long() - 128 for plane in rows.planes.chunk(2))
    of_high, of_low = ((plane @ weight.long().T).float() * scales for plane in (high, low))
    return (256 * of_high + of_low) * rows.steps


def int8_matrix(out_features: int, in_features: int) -> torch.Tensor:
    return torch.randint(-128, 128, (out_features, in_features), dtype=torch.int8)


@pytest.mark.parametrize("in_features", AWKWARD_SIZES)
def test_quantized_rows_are_off_by_at_most_half_a_step(in_features: int) -> None:
    x = torch.randn(7, in_features) * torch.logspace(-20, 20, 7)[:, None]
    rows = quantize_rows(x)
    error = (steps_of(rows) * rows.steps - x).abs()
    assert (error <= rows.steps * 0.51).all()  # float32 rounds the quotient once more


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=40))
def test_the_largest_value_takes_all_steps_and_zero_takes_none(values: list[float]) -> None:
    x = torch.tensor([values])
    steps = steps_of(quantize_rows(x))
    assert (steps.abs() <= 32639).all()
    assert (steps[x == 0] == 0).all()
    if float(x.abs().max()) > 1e-30:
        assert steps.abs().max() == 32639


def test_a_row_of_zeros_is_exactly_zero() -> None:
    rows = quantize_rows(torch.zeros(2, 16))
    assert (rows.planes == 128).all()
    assert rows.steps.isfinite().all()


def test_rows_that_are_not_contiguous_are_read_as_they_are() -> None:
    x = torch.randn(64, 6).T
    for strided in (x, x[:, ::2]):
        rows, copied = quantize_rows(strided), quantize_rows(strided.contiguous())
        assert torch.equal(rows.planes, copied.planes)
        assert torch.equal(rows.steps, copied.steps)


@needs_product
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_row_that_is_not_finite_gives_nan_and_leaves_the_others_alone(bad: float) -> None:
    weight, scales = int8_matrix(32, 64), torch.rand(32)
    packed = pack_int8(weight)
    assert packed is not None
    x = torch.randn(3, 64)
    damaged = x.clone()
    damaged[1, 5] = bad
    out = int8_product(damaged, packed, scales)
    assert out[1].isnan().all()
    assert torch.equal(out[::2], int8_product(x, packed, scales)[::2])


@needs_product
@pytest.mark.parametrize("shape", [(1152, 896), (896, 4864), (64, 64), (7, 32), (33, 123)])
def test_the_product_is_that_of_integers(shape: tuple[int, int]) -> None:
    weight, scales = int8_matrix(*shape), torch.rand(shape[0])
    packed = pack_int8(weight)
    assert packed is not None
    for num_rows in (1, 2, 5, 16, 70):
        x = torch.randn(num_rows, shape[1])
        assert torch.equal(int8_product(x, packed, scales), statement(x, weight, scales)), num_rows


@needs_product
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_largest_sums_do_not_overflow(sign: float) -> None:
    """The widest matrix that is allowed, every product at its extreme."""
    weight = torch.full((16, MAX_IN_FEATURES), -128, dtype=torch.int8)
    packed, scales = pack_int8(weight), torch.ones(16)
    assert packed is not None
    for num_rows in (1, 3, 16):
        x = torch.full((num_rows, MAX_IN_FEATURES), sign)
        assert torch.equal(int8_product(x, packed, scales), statement(x, weight, scales))


def test_a_wider_matrix_is_not_packed() -> None:
    assert pack_int8(torch.zeros(1, MAX_IN_FEATURES + 1, dtype=torch.int8)) is None


@needs_product
@pytest.mark.parametrize("shape", [(1152, 896), (896, 4864), (64, 64)])
def test_a_row_has_the_same_bits_in_any_company(shape: tuple[int, int]) -> None:
    packed, scales = pack_int8(int8_matrix(*shape)), torch.rand(shape[0])
    assert packed is not None
    x = torch.randn(max(ROW_COUNTS), shape[1])
    together = int8_product(x, packed, scales)
    for num_rows in ROW_COUNTS:
        start = num_rows % 7
        rows = x[start : start + num_rows]
        assert torch.equal(int8_product(rows, packed, scales), together[start : start + num_rows]), num_rows


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 300))
def test_quantizing_a_row_does_not_depend_on_its_neighbors(seed: int, num_rows: int) -> None:
    x = torch.from_numpy(np.random.default_rng(seed).standard_normal((num_rows, 251)).astype(np.float32))
    whole, row = quantize_rows(x), seed % num_rows
    alone = quantize_rows(x[row : row + 1])
    assert torch.equal(whole.planes[[row, num_rows + row]], alone.planes)
    assert torch.equal(whole.steps[row], alone.steps[0])


def test_a_cpu_that_saturates_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def saturating(planes: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(planes), len(scales))

    monkeypatch.setattr(module, "_product_of_planes", saturating)
    assert not has_exact_product.__wrapped__()


def test_a_torch_without_onednn_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_arguments: object) -> torch.Tensor:
        raise AttributeError("'_OpNamespace' 'onednn' object has no attribute 'qlinear_pointwise'")

    monkeypatch.setattr(module, "_product_of_planes", missing)
    assert not has_exact_product.__wrapped__()
