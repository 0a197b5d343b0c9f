import pytest
import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.testing import AWKWARD_SIZES, assert_close
from sureact_kernels.triton.silu_and_mul import BLOCK_SIZE, silu_and_mul, takes


@pytest.fixture(autouse=True)
def nan_in_new_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel does not write shows."""
    new = torch.empty

    def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return new(shape, dtype=dtype, device=device).fill_(float("nan"))

    monkeypatch.setattr(torch, "empty", empty)


def exactly(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.double().chunk(2, -1)
    return F.silu(gate) * up


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("size", [*AWKWARD_SIZES, BLOCK_SIZE, 2 * BLOCK_SIZE + 1])
def test_equals_the_formula_in_float64(size: int, dtype: torch.dtype) -> None:
    gate_up = (4 * torch.randn(3, 2 * size)).to(dtype)
    assert takes(gate_up)
    assert_close(silu_and_mul(gate_up), exactly(gate_up), dtype)


def test_gates_of_any_size_are_open_or_shut() -> None:
    gate = torch.tensor([-3e38, -200.0, -90.0, -0.0, 0.0, 90.0, 3e38, torch.nan])
    out = silu_and_mul(torch.cat((gate, torch.ones(8))).unsqueeze(0))[0]
    assert out[-1].isnan()
    torch.testing.assert_close(out[:-1], torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 90.0, 3e38]), rtol=1e-6, atol=1e-30)


def test_strided_rows_are_taken_as_they_are() -> None:
    wide = torch.randn(5, 3, 80)
    for gate_up in (wide[:, 1, :40], wide[:, 2, ::2], wide[:, :2, 1:41]):
        out = silu_and_mul(gate_up)
        assert torch.equal(out, silu_and_mul(gate_up.contiguous()))
        assert_close(out, exactly(gate_up), torch.float32)


def test_a_row_does_not_depend_on_the_other_rows() -> None:
    gate_up = torch.randn(64, 246).bfloat16()
    together = silu_and_mul(gate_up)
    for rows in (slice(0, 1), slice(0, 2), slice(0, 16), slice(17, 18), slice(1, 64)):
        assert torch.equal(silu_and_mul(gate_up[rows]), together[rows])


def test_no_rows_give_no_rows() -> None:
    assert silu_and_mul(torch.ones(0, 16)).shape == (0, 8)


def test_other_dtypes_are_not_taken() -> None:
    assert not takes(torch.ones(1, 8, dtype=torch.float64))
