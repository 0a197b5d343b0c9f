"""Products in all three forms: right against float64, and the same bits for a row whatever the number of rows."""

import pytest
import torch

from sureact.weights.quantization import quantize_int4, quantize_int8
from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.errors import KernelInputError
from sureact_kernels.linear import DenseWeight, Int4Weight, Int8Weight, LinearWeight, linear
from sureact_kernels.testing import AWKWARD_SIZES, assert_close

ROW_COUNTS = (*range(1, 13), 31, 33, 64, 127, 300)
SHAPES = ((1152, 896), (896, 4864), (64, 64), (96, 160))


def dense(out_features: int, in_features: int, dtype: torch.dtype) -> DenseWeight:
    return DenseWeight((torch.randn(out_features, in_features) / in_features**0.5).to(dtype))


def weights(out_features: int, in_features: int) -> dict[str, LinearWeight]:
    matrix = torch.randn(out_features, in_features) / in_features**0.5
    return {
        "float32": DenseWeight(matrix),
        "bfloat16": DenseWeight(matrix.bfloat16()),
        "float16": DenseWeight(matrix.half()),
        "int8": quantize_int8(matrix),
        "int4": quantize_int4(matrix),
    }


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("size", AWKWARD_SIZES)
def test_a_dense_product_equals_float64(size: int, dtype: torch.dtype) -> None:
    weight = dense(size, 123, dtype)
    x, bias = torch.randn(5, 123).to(dtype), torch.randn(size).to(dtype)
    exact = x.double() @ weight.weight.double().T + bias.double()
    assert_close(linear(x, weight, bias), exact, dtype)


def test_an_int8_product_equals_that_of_its_scaled_matrix() -> None:
    weight = quantize_int8(torch.randn(128, 320) / 18)
    assert isinstance(weight, Int8Weight)
    x, bias = torch.randn(6, 320).bfloat16(), torch.randn(128).bfloat16()
    exact = x.double() @ (weight.weight.double() * weight.scales.double().unsqueeze(1)).T + bias.double()
    assert_close(linear(x, weight, bias), exact, torch.bfloat16)


def test_an_int4_product_equals_that_of_its_matrix_read_column_by_column() -> None:
    weight = quantize_int4(torch.randn(64, 128) / 11)
    assert isinstance(weight, Int4Weight)
    matrix = linear(torch.eye(128).bfloat16(), weight).double()
    x = torch.randn(6, 128).bfloat16()
    assert_close(linear(x, weight), x.double() @ matrix, torch.bfloat16)


@pytest.mark.parametrize("form", ["float32", "bfloat16", "float16", "int8", "int4"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_has_the_same_bits_in_any_company(shape: tuple[int, int], form: str) -> None:
    weight = weights(*shape)[form]
    dtype = weight.weight.dtype if isinstance(weight, DenseWeight) else torch.bfloat16
    x = torch.randn(max(ROW_COUNTS), shape[1]).to(dtype)
    together = linear(x, weight)
    for num_rows in ROW_COUNTS:
        for start in (0, 1, 6):
            rows = x[start : start + num_rows]
            assert torch.equal(linear(rows, weight), together[start : start + num_rows]), (num_rows, start)


def test_the_fast_int8_product_agrees_with_the_invariant_one() -> None:
    weight = quantize_int8(torch.randn(256, 512) / 22)
    x = torch.randn(40, 512).bfloat16()
    assert_close(linear(x, weight, invariant=False), linear(x, weight).double(), torch.bfloat16)


def test_no_rows_give_no_rows() -> None:
    assert linear(torch.empty(0, 64), dense(32, 64, torch.float32)).shape == (0, 32)


def test_quantized_weights_refuse_other_activations_than_bfloat16() -> None:
    with pytest.raises(KernelInputError, match=r"float32.*bfloat16"):
        linear(torch.randn(1, 64), quantize_int8(torch.randn(64, 64)))


def test_a_dense_weight_refuses_another_dtype_with_both() -> None:
    with pytest.raises(KernelInputError, match=r"float16.*float32"):
        linear(torch.randn(1, 64).half(), dense(32, 64, torch.float32))
