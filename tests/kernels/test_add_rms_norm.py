import pytest
import torch

from sureact_kernels.add_rms_norm import add_rms_norm
from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.errors import KernelInputError
from sureact_kernels.testing import AWKWARD_SIZES, assert_close


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("hidden_size", AWKWARD_SIZES)
def test_normalizes_the_rounded_sum(hidden_size: int, dtype: torch.dtype) -> None:
    x, residual = torch.randn(5, hidden_size).to(dtype), torch.randn(5, hidden_size).to(dtype)
    weight = torch.randn(hidden_size).to(dtype)
    before = residual.clone()
    out, total = add_rms_norm(x, residual, weight, 1e-6)
    exact = total.double() / (total.double().square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()
    assert torch.equal(total, residual + x)
    assert torch.equal(residual, before)
    assert_close(out, exact, dtype)


def test_residuals_of_another_shape_are_refused() -> None:
    with pytest.raises(KernelInputError, match="residual"):
        add_rms_norm(torch.randn(2, 8), torch.randn(3, 8), torch.ones(8), 1e-6)
