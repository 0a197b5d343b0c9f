import pytest
import torch

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.errors import KernelInputError
from sureact_kernels.silu_and_mul import silu_and_mul
from sureact_kernels.testing import AWKWARD_SIZES, assert_close


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("size", AWKWARD_SIZES)
def test_equals_the_formula_in_float64(size: int, dtype: torch.dtype) -> None:
    gate_up = torch.randn(3, 2 * size).to(dtype)
    gate, up = gate_up.double().chunk(2, -1)
    assert_close(silu_and_mul(gate_up), gate / (1 + (-gate).exp()) * up, dtype)


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(KernelInputError, match="7; it must be even"):
        silu_and_mul(torch.randn(1, 7))


def test_a_row_has_the_same_bits_in_any_company() -> None:
    gate_up = torch.randn(700, 2 * 96)
    together = silu_and_mul(gate_up)
    for num_rows in (1, 2, 171, 343, 500):
        assert torch.equal(silu_and_mul(gate_up[:num_rows]), together[:num_rows])
        assert torch.equal(silu_and_mul(gate_up[-num_rows:]), together[-num_rows:])
