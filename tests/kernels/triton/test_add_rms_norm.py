import pytest
import torch

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.testing import AWKWARD_SIZES, assert_close
from sureact_kernels.triton.add_rms_norm import add_rms_norm, takes
from sureact_kernels.triton.rms_norm import MAX_ROW_SIZE, rms_norm


@pytest.fixture(autouse=True)
def nan_in_new_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel does not write shows."""
    new = torch.empty

    def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return new(shape, dtype=dtype, device=device).fill_(float("nan"))

    monkeypatch.setattr(torch, "empty", empty)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("size", [*AWKWARD_SIZES, 4096])
def test_equals_the_formula_in_float64(size: int, dtype: torch.dtype) -> None:
    x, residual, weight = (torch.randn(shape).to(dtype) for shape in ((3, size), (3, size), (size,)))
    assert takes(x, residual, weight)
    out, total = add_rms_norm(x, residual, weight, 1e-6)
    assert_close(total, residual.double() + x.double(), dtype)  # Triton's interpreter truncates to bfloat16
    assert dtype is torch.bfloat16 or torch.equal(total, residual + x)
    exact = total.double() / (total.double().square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()
    assert_close(out, exact, dtype)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_the_norm_has_the_bits_of_the_op_that_only_normalizes(dtype: torch.dtype) -> None:
    x, residual, weight = (torch.randn(shape).to(dtype) for shape in ((3, 160), (3, 160), (160,)))
    out, total = add_rms_norm(x, residual, weight, 1e-6)
    assert torch.equal(out, rms_norm(total, weight, 1e-6))


@pytest.mark.parametrize("size", [16, 63])
def test_strided_rows_are_taken_as_they_are_and_not_changed(size: int) -> None:
    wide, weight = torch.randn(5, 4 * size), torch.randn(2 * size)[::2]
    for x, residual in ((wide[:, :size], wide[:, size : 2 * size]), (wide[:, 1 : size + 1], wide[:, ::4])):
        before = wide.clone()
        found = add_rms_norm(x, residual, weight, 1e-6)
        alone = add_rms_norm(x.contiguous(), residual.contiguous(), weight.contiguous(), 1e-6)
        assert all(torch.equal(a, b) for a, b in zip(found, alone, strict=True))
        assert torch.equal(wide, before)


@pytest.mark.parametrize("size", [123, 1024])
def test_a_row_does_not_depend_on_the_other_rows(size: int) -> None:
    x, residual, weight = (torch.randn(shape).bfloat16() for shape in ((64, size), (64, size), (size,)))
    together = add_rms_norm(x, residual, weight, 1e-6)
    for rows in (slice(0, 1), slice(0, 2), slice(0, 3), slice(0, 16), slice(17, 18), slice(1, 64)):
        alone = add_rms_norm(x[rows], residual[rows], weight, 1e-6)
        assert all(torch.equal(a, b[rows]) for a, b in zip(alone, together, strict=True))


def test_no_rows_give_no_rows() -> None:
    out, total = add_rms_norm(torch.ones(0, 8), torch.ones(0, 8), torch.ones(8), 1e-6)
    assert out.shape == total.shape == (0, 8)


def test_other_dtypes_and_longer_rows_are_not_taken() -> None:
    x, weight = torch.randn(1, 8), torch.randn(8)
    assert not takes(x.double(), x.double(), weight.double())
    assert not takes(x, x.bfloat16(), weight)
    assert not takes(x, x, weight.bfloat16())
    long = torch.ones(MAX_ROW_SIZE + 1)
    assert not takes(long, long, long)
