"""Products in all three forms: right against float64, and the same bits for a row whatever the number of rows."""

import pytest
import torch

from sureact.weights.quantization import quantize_int4, quantize_int8
from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.errors import KernelInputError
from sureact_kernels.int4_product import pack_int4
from sureact_kernels.int8_product import has_exact_product, pack_int8
from sureact_kernels.linear import DenseWeight, Fp8Weight, Int4Weight, Int8Weight, LinearWeight, dequantized, linear
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
        "int8": packed(quantize_int8(matrix)),
        "int8 not packed": quantize_int8(matrix),
        "int4": packed_int4(quantize_int4(matrix)),
        "int4 not packed": quantize_int4(matrix),
        "fp8": fp8(matrix),
    }


def fp8(matrix: torch.Tensor) -> Fp8Weight:
    """Scale each row to the range of e4m3."""
    scales = matrix.abs().amax(dim=1) / 448
    return Fp8Weight((matrix / scales[:, None]).to(torch.float8_e4m3fn), scales)


def packed(weight: Int8Weight) -> Int8Weight:
    """Return the form that the model takes; the same where this CPU has no exact product."""
    values = pack_int8(weight.weight)
    return weight if values is None else Int8Weight(weight.weight, weight.scales.float(), values)


def packed_int4(weight: Int4Weight) -> Int4Weight:
    """Return the form that the model takes."""
    values = pack_int4(weight.nibbles, weight.scales_and_zeros, weight.group_size)
    return Int4Weight(weight.nibbles, weight.scales_and_zeros, weight.group_size, values)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("size", AWKWARD_SIZES)
def test_a_dense_product_equals_float64(size: int, dtype: torch.dtype) -> None:
    weight = dense(size, 123, dtype)
    x, bias = torch.randn(5, 123).to(dtype), torch.randn(size).to(dtype)
    exact = x.double() @ weight.weight.double().T + bias.double()
    assert_close(linear(x, weight, bias), exact, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_packed", [True, False])
def test_an_int8_product_equals_that_of_its_scaled_matrix(is_packed: bool, dtype: torch.dtype) -> None:
    weight = quantize_int8(torch.randn(128, 320) / 18)
    x, bias = torch.randn(6, 320).to(dtype), torch.randn(128).to(dtype)
    exact = x.double() @ (weight.weight.double() * weight.scales.double().unsqueeze(1)).T + bias.double()
    out = linear(x, packed(weight) if is_packed else weight, bias)
    assert out.dtype == dtype
    assert_close(out, exact, torch.bfloat16)


@pytest.mark.skipif(not has_exact_product(), reason="this CPU has no exact int8 product")
def test_packed_int8_is_much_finer_than_bfloat16_activations() -> None:
    weight = quantize_int8(torch.randn(128, 896) / 30)
    x = torch.randn(6, 896)
    exact = x.double() @ (weight.weight.double() * weight.scales.double().unsqueeze(1)).T
    error, rounded = ((linear(x, w).double() - exact).square().mean() for w in (packed(weight), weight))
    assert error < rounded / 1000


def test_an_int4_product_equals_that_of_its_matrix_read_column_by_column() -> None:
    weight = quantize_int4(torch.randn(64, 128) / 11)
    assert isinstance(weight, Int4Weight)
    matrix = linear(torch.eye(128).bfloat16(), weight).double()
    x = torch.randn(6, 128).bfloat16()
    assert_close(linear(x, weight), x.double() @ matrix, torch.bfloat16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_fp8_product_equals_that_of_its_scaled_matrix(dtype: torch.dtype) -> None:
    weight = fp8(torch.randn(128, 320) / 18)
    x, bias = torch.randn(6, 320).to(dtype), torch.randn(128).to(dtype)
    exact = x.double() @ (weight.weight.double() * weight.scales.double().unsqueeze(1)).T + bias.double()
    out = linear(x, weight, bias)
    assert out.dtype == dtype
    assert_close(out, exact, dtype)


def test_a_quantized_matrix_stands_for_one_close_to_the_one_it_was_made_of() -> None:
    matrix = torch.randn(128, 320) / 18
    for weight, steps in ((quantize_int8(matrix), 255), (quantize_int4(matrix), 15), (fp8(matrix), 30)):
        assert (dequantized(weight) - matrix).abs().max() < matrix.abs().max() * 2 / steps


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        ("float32", torch.float32),
        ("bfloat16", torch.bfloat16),
        ("bfloat16", torch.float32),
        ("float16", torch.float16),
        ("int8", torch.float32),
        ("int8 not packed", torch.bfloat16),
        ("int4", torch.float32),
        ("int4", torch.bfloat16),
        ("int4 not packed", torch.float32),
    ],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_has_the_same_bits_in_any_company(shape: tuple[int, int], form: str, dtype: torch.dtype) -> None:
    weight = weights(*shape)[form]
    x = torch.randn(max(ROW_COUNTS), shape[1]).to(dtype)
    together = linear(x, weight)
    for num_rows in ROW_COUNTS:
        for start in (0, 1, 6):
            rows = x[start : start + num_rows]
            assert torch.equal(linear(rows, weight), together[start : start + num_rows]), (num_rows, start)


def test_a_row_of_an_fp8_product_has_the_same_bits_in_any_company() -> None:
    weight, x = fp8(torch.randn(96, 160)), torch.randn(33, 160).bfloat16()
    together = linear(x, weight)
    for num_rows in (1, 2, 5, 12, 31):
        assert torch.equal(linear(x[:num_rows], weight), together[:num_rows])


def test_no_rows_give_no_rows() -> None:
    assert linear(torch.empty(0, 64), dense(32, 64, torch.float32)).shape == (0, 32)


@pytest.mark.parametrize("form", ["int8", "int8 not packed", "int4", "int4 not packed", "fp8"])
def test_quantized_weights_refuse_other_activations_than_float32_and_bfloat16(form: str) -> None:
    with pytest.raises(KernelInputError, match=r"float16.*bfloat16"):
        linear(torch.randn(1, 64).half(), weights(64, 64)[form])


def test_a_dense_weight_refuses_another_dtype_with_both() -> None:
    with pytest.raises(KernelInputError, match=r"bfloat16.*float16"):
        linear(torch.randn(1, 64).bfloat16(), dense(32, 64, torch.float16))
