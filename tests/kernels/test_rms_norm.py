import pytest
import torch

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.errors import KernelInputError
from sureact_kernels.rms_norm import rms_norm
from sureact_kernels.testing import AWKWARD_SIZES, assert_close


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("hidden_size", AWKWARD_SIZES)
def test_equals_the_formula_in_float64(hidden_size: int, dtype: torch.dtype) -> None:
    x, weight = torch.randn(7, hidden_size).to(dtype), torch.randn(hidden_size).to(dtype)
    exact = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()
    assert_close(rms_norm(x, weight, 1e-6), exact, dtype)


def test_strided_rows_and_heads_are_taken_as_they_are() -> None:
    x = torch.randn(5, 3, 40)[:, :2, ::2]
    weight = torch.randn(20)
    assert torch.equal(rms_norm(x, weight, 1e-6), rms_norm(x.contiguous(), weight, 1e-6))


def test_a_row_does_not_depend_on_the_other_rows() -> None:
    x, weight = torch.randn(64, 896).bfloat16(), torch.randn(896).bfloat16()
    together = rms_norm(x, weight, 1e-6)
    assert all(torch.equal(rms_norm(x[i : i + 1], weight, 1e-6), together[i : i + 1]) for i in range(64))


def test_no_rows_give_no_rows() -> None:
    assert rms_norm(torch.empty(0, 8), torch.ones(8), 1e-6).shape == (0, 8)


def test_a_weight_of_another_size_is_refused_with_both_shapes() -> None:
    with pytest.raises(KernelInputError, match=r"\[9\].*\[8\]"):
        rms_norm(torch.randn(2, 8), torch.ones(9), 1e-6)
