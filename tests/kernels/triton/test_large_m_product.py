import pytest
import torch

from sureact_kernels.linear import DenseWeight
from sureact_kernels.testing import assert_close
from sureact_kernels.triton.large_m_product import large_m_product
from sureact_kernels.triton.matrix_operand import MatrixOperand
from sureact_kernels.triton.small_m_product import small_m_product


@pytest.mark.parametrize("num_rows", [1, 128, 129])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_number_of_rows_is_computed(num_rows: int, dtype: torch.dtype) -> None:
    matrix, x = (torch.randn(200, 100) / 10).to(dtype), torch.randn(num_rows, 100).to(dtype)
    out = large_m_product(x, MatrixOperand.of(DenseWeight(matrix)))
    assert_close(out, x.double() @ matrix.double().T, dtype)


@pytest.mark.parametrize("is_gated", [False, True])
@pytest.mark.parametrize("in_features", [63, 256, 800])
def test_the_order_of_sums_is_that_of_the_small_product(in_features: int, is_gated: bool) -> None:
    """Values of very different size: another order or another place to split gives other bits."""
    scale = torch.logspace(-3, 3, in_features)[torch.randperm(in_features)]
    matrix = MatrixOperand.of(DenseWeight(torch.randn(40, in_features) * scale))
    x, bias = torch.randn(9, in_features), torch.randn(40)
    expected = small_m_product(x, matrix, bias, is_gated=is_gated)
    assert torch.equal(large_m_product(x, matrix, bias, is_gated=is_gated), expected)
