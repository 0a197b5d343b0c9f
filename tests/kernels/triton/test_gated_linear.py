import pytest
import torch

from sureact.weights.quantization import quantize_int4, quantize_int8
from sureact_kernels.linear import DenseWeight, LinearWeight, dequantized, tensors_of
from sureact_kernels.testing import assert_close
from sureact_kernels.triton.gated_linear import gated_linear, takes

FORMS = ("float32", "bfloat16", "int8", "int4")


def weight_of(form: str, in_features: int) -> LinearWeight:
    matrix = torch.randn(160, in_features) / in_features**0.5
    if form == "int8":
        return quantize_int8(matrix)
    return quantize_int4(matrix) if form == "int4" else DenseWeight(matrix.to(getattr(torch, form)))


@pytest.mark.parametrize("in_features", [96, 288])
@pytest.mark.parametrize("form", FORMS)
def test_equals_the_formula_in_float64(form: str, in_features: int) -> None:
    """With few columns gate and up are joined by the product, with many by what merges its splits."""
    weight = weight_of(form, in_features)
    x = torch.randn(3, in_features).to(torch.float32 if form == "float32" else torch.bfloat16)
    matrix = weight.weight if isinstance(weight, DenseWeight) else dequantized(weight)
    gate, up = (x.double() @ matrix.double().T).chunk(2, dim=-1)
    assert_close(gated_linear(x, weight), gate * gate.sigmoid() * up, x.dtype)


@pytest.mark.parametrize("in_features", [96, 288])
@pytest.mark.parametrize("form", FORMS)
def test_a_row_has_the_same_bits_in_any_company(form: str, in_features: int) -> None:
    weight = weight_of(form, in_features)
    x = torch.randn(70, in_features).to(torch.float32 if form == "float32" else torch.bfloat16)
    together = gated_linear(x, weight)
    for num_rows, start in ((1, 69), (18, 30), (64, 3)):
        rows = slice(start, start + num_rows)
        assert torch.equal(gated_linear(x[rows], weight), together[rows]), (num_rows, start)


def test_no_rows_give_no_rows() -> None:
    assert gated_linear(torch.empty(0, 96), weight_of("float32", 96)).shape == (0, 80)


def test_an_odd_number_of_outputs_is_not_taken() -> None:
    x = torch.empty(1, 96)
    assert takes(x, *tensors_of(weight_of("float32", 96)))
    assert not takes(x, torch.empty(159, 96))
