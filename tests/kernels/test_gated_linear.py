import pytest
import torch

from sureact.weights.quantization import quantize_int4, quantize_int8
from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.errors import KernelInputError
from sureact_kernels.gated_linear import gated_linear
from sureact_kernels.linear import DenseWeight, linear
from sureact_kernels.silu_and_mul import silu_and_mul
from sureact_kernels.testing import AWKWARD_SIZES, assert_close


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("size", AWKWARD_SIZES)
def test_equals_the_formula_in_float64(size: int, dtype: torch.dtype) -> None:
    matrix = (torch.randn(2 * size, 123) / 11).to(dtype)
    x = torch.randn(3, 123).to(dtype)
    gate, up = (x.double() @ matrix.double().T).chunk(2, dim=-1)
    assert_close(gated_linear(x, DenseWeight(matrix)), gate * gate.sigmoid() * up, dtype)


def test_quantized_weights_give_the_bits_of_the_two_ops() -> None:
    matrix, x = torch.randn(128, 64) / 8, torch.randn(5, 64)
    for weight in (quantize_int8(matrix), quantize_int4(matrix)):
        assert torch.equal(gated_linear(x, weight), silu_and_mul(linear(x, weight)))


def test_a_row_has_the_same_bits_in_any_company() -> None:
    weight, x = DenseWeight(torch.randn(128, 64)), torch.randn(40, 64)
    together = gated_linear(x, weight)
    for num_rows in (1, 2, 7, 33):
        assert torch.equal(gated_linear(x[:num_rows], weight), together[:num_rows])


def test_an_odd_number_of_rows_of_the_matrix_is_refused() -> None:
    with pytest.raises(KernelInputError, match="7 rows; their number must be even"):
        gated_linear(torch.randn(1, 16), DenseWeight(torch.randn(7, 16)))
