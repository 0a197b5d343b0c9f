import pytest
import torch

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.testing import AWKWARD_SIZES, assert_close
from sureact_kernels.triton.rms_norm import (
    MAX_ROW_SIZE,
    aligned_rows,
    num_warps_for,
    rms_norm,
    stride_of_rows,
    takes,
)


def exactly(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()


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
    x, weight = torch.randn(3, size).to(dtype), torch.randn(size).to(dtype)
    assert takes(x, weight)
    assert_close(rms_norm(x, weight, 1e-6), exactly(x, weight), dtype)


@pytest.mark.parametrize("size", [16, 20, 63])
def test_strided_rows_and_heads_are_taken_as_they_are(size: int) -> None:
    wide = torch.randn(5, 3, 2 * size)
    weight = torch.randn(2 * size)[::2]
    for x in (wide[:, :2, ::2], wide[:, :2, :size], wide[:, 1, 1 : size + 1], wide[:0, 0, :size]):
        out = rms_norm(x, weight, 1e-6)
        assert out.shape == x.shape
        assert torch.equal(out, rms_norm(x.contiguous(), weight.contiguous(), 1e-6))


@pytest.mark.parametrize("size", [123, 1024])
def test_a_row_does_not_depend_on_the_other_rows(size: int) -> None:
    x, weight = torch.randn(64, size).bfloat16(), torch.randn(size).bfloat16()
    together = rms_norm(x, weight, 1e-6)
    for rows in (1, 2, 3, 16, 63):
        assert torch.equal(rms_norm(x[:rows], weight, 1e-6), together[:rows])
    assert torch.equal(rms_norm(x[17:18], weight, 1e-6), together[17:18])


@pytest.mark.parametrize("size", [64, 123])
def test_rows_come_in_one_layout_whatever_they_came_in(size: int) -> None:
    """Triton tells multiples of 16 apart, in addresses and in strides."""
    wide = torch.randn(8, 128 + 2)
    several = (wide[:, :size], wide[:, 1 : size + 1], wide[:1, :size], wide[2:3, 1 : size + 1], wide[:, : 2 * size : 2])
    several += (torch.randn(8, 128)[:, :size], torch.randn(8, 3, 128)[:, 1, :size], torch.randn(8, size)[3:4])
    for x in several:
        rows = aligned_rows(x)
        assert torch.equal(rows, x)
        assert rows.stride(1) == 1
        assert (stride_of_rows(rows) % 16 == 0) == (size % 16 == 0)
        assert size % 16 != 0 or rows.data_ptr() % 16 == 0


def test_rows_that_lie_well_are_not_copied() -> None:
    wide = torch.randn(8, 128)
    assert aligned_rows(wide[:, :64]).data_ptr() == wide.data_ptr()
    assert aligned_rows(wide[3:4]).data_ptr() == wide[3:4].data_ptr()
    alone = torch.randn(64).as_strided((1, 64), (1, 1))
    assert aligned_rows(alone).data_ptr() == alone.data_ptr()
    assert stride_of_rows(alone) == 64


def test_other_dtypes_and_longer_rows_are_not_taken() -> None:
    x, weight = torch.randn(1, 8), torch.randn(8)
    assert not takes(x.double(), weight.double())
    assert not takes(x.bfloat16(), weight)
    assert takes(torch.ones(1, MAX_ROW_SIZE), weight)
    assert not takes(torch.ones(1, MAX_ROW_SIZE + 1), weight)
    assert not takes(torch.ones(1, 0), weight[:0])


def test_the_warps_of_a_row_depend_on_its_size() -> None:
    assert [num_warps_for(size) for size in (1, 128, 256, 896, 1024, 4096, MAX_ROW_SIZE)] == [1, 1, 1, 4, 4, 16, 16]
