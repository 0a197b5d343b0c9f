"""Products on a GPU in every form of the matrix, in the interpreter."""

import pytest
import torch

from sureact.weights.quantization import quantize_int4, quantize_int8
from sureact_kernels.linear import DenseWeight, Fp8Weight, LinearWeight, dequantized, tensors_of
from sureact_kernels.testing import AWKWARD_SIZES, assert_close
from sureact_kernels.triton.linear import linear, takes
from sureact_kernels.triton.product_shapes import MOST_SMALL_ROWS

FORMS = ("float32", "bfloat16", "float16", "int8", "int4", "fp8")


def weight_of(form: str, out_features: int, in_features: int) -> LinearWeight:
    matrix = torch.randn(out_features, in_features) / in_features**0.5
    if form == "int8":
        return quantize_int8(matrix)
    if form == "int4":
        return quantize_int4(matrix)
    if form == "fp8":
        scales = matrix.abs().amax(dim=1) / 448
        return Fp8Weight((matrix / scales[:, None]).to(torch.float8_e4m3fn), scales)
    return DenseWeight(matrix.to(getattr(torch, form)))


def dtype_of(form: str) -> torch.dtype:
    """Which activations stand beside the form."""
    return {"float32": torch.float32, "float16": torch.float16}.get(form, torch.bfloat16)


def exact_product(x: torch.Tensor, weight: LinearWeight) -> torch.Tensor:
    matrix = weight.weight if isinstance(weight, DenseWeight) else dequantized(weight)
    return x.double() @ matrix.double().T


@pytest.mark.parametrize("form", FORMS)
def test_equals_float64_with_and_without_a_bias(form: str) -> None:
    """The sizes are no multiples of a block; 288 columns are two splits, the second one short."""
    weight, dtype = weight_of(form, 80, 288), dtype_of(form)
    x, bias = torch.randn(3, 288).to(dtype), torch.randn(80).to(dtype)
    out = linear(x, weight, bias)
    assert out.dtype == dtype
    assert_close(out, exact_product(x, weight) + bias.double(), dtype)
    assert_close(linear(x, weight), exact_product(x, weight), dtype)


@pytest.mark.parametrize("size", AWKWARD_SIZES)
def test_awkward_sizes_equal_float64(size: int) -> None:
    for out_features, in_features in ((size, 40), (33, size)):
        weight = weight_of("bfloat16", out_features, in_features)
        x = torch.randn(2, in_features).bfloat16()
        assert_close(linear(x, weight), exact_product(x, weight), torch.bfloat16)


@pytest.mark.parametrize("form", FORMS)
def test_a_row_has_the_same_bits_in_any_company(form: str) -> None:
    """Alone, in a batch, and in a prefill chunk, which the large-M product computes."""
    weight = weight_of(form, 80, 288)
    x = torch.randn(70, 288).to(dtype_of(form))
    bias = torch.randn(80).to(x.dtype)
    together = linear(x, weight, bias)
    for num_rows, start in ((1, 69), (2, 3), (17, 30), (MOST_SMALL_ROWS, 6), (66, 4)):
        rows = slice(start, start + num_rows)
        assert torch.equal(linear(x[rows], weight, bias), together[rows]), (num_rows, start)


@pytest.mark.parametrize("num_rows", [4, 70])
def test_strided_rows_and_matrices_give_the_same_bits(num_rows: int) -> None:
    x, matrix = torch.randn(num_rows, 96).bfloat16(), torch.randn(48, 96).bfloat16()
    expected = linear(x, DenseWeight(matrix))
    wide = torch.full((num_rows, 200), torch.nan).bfloat16()
    wide[:, 7:103] = x
    assert torch.equal(linear(wide[:, 7:103], DenseWeight(matrix)), expected)
    assert torch.equal(linear(x.T.contiguous().T, DenseWeight(matrix)), expected)
    wide_matrix = torch.full((48, 128), torch.nan).bfloat16()
    wide_matrix[:, :96] = matrix
    assert torch.equal(linear(x, DenseWeight(wide_matrix[:, :96])), expected)


@pytest.mark.parametrize("num_rows", [3, 70])
def test_nan_stays_in_its_row(num_rows: int) -> None:
    weight = weight_of("bfloat16", 70, 300)
    x = torch.randn(num_rows, 300).bfloat16()
    expected = linear(x, weight)
    x[1, 5] = torch.nan
    out = linear(x, weight)
    assert out[1].isnan().all()
    others = torch.arange(num_rows) != 1
    assert torch.equal(out[others], expected[others])


@pytest.mark.parametrize("form", FORMS)
def test_no_rows_give_no_rows(form: str) -> None:
    assert linear(torch.empty(0, 64, dtype=dtype_of(form)), weight_of(form, 32, 64)).shape == (0, 32)


@pytest.mark.parametrize("form", FORMS)
def test_takes_each_form_beside_its_activations_only(form: str) -> None:
    tensors = tensors_of(weight_of(form, 32, 64))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert takes(torch.empty(1, 64, dtype=dtype), *tensors) == (dtype is dtype_of(form))
    assert not takes(torch.empty(1, 96, dtype=dtype_of(form)), *tensors)
