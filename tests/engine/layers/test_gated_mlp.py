import pytest
import torch

from sureact.layers import gated_mlp
from sureact.layers.gated_mlp import GatedMlp
from sureact.layers.linear import Linear
from sureact.weights.quantization import quantize_int4, quantize_int8
from sureact_kernels import dispatch
from sureact_kernels.linear import DenseWeight, LinearWeight, dequantized
from sureact_kernels.silu_and_mul import silu_and_mul

FORMS = {"bfloat16": lambda m: DenseWeight(m.bfloat16()), "int8": quantize_int8, "int4": quantize_int4}  # pyright: ignore


def test_is_down_of_the_gated_up() -> None:
    gate, up, down, x = torch.randn(12, 8), torch.randn(12, 8), torch.randn(8, 12), torch.randn(3, 8)
    mlp = GatedMlp(Linear(DenseWeight(torch.cat((gate, up)))), Linear(DenseWeight(down)))
    expected = (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T
    torch.testing.assert_close(mlp(x, invariant=True), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_on_a_gpu_the_gate_is_part_of_the_product(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows have the bits that they have alone, by the product of few rows and by that of many."""
    monkeypatch.setattr(dispatch, "GPU", "cpu")
    monkeypatch.setattr(gated_mlp, "silu_and_mul", not_called)
    gate_up, down, x = torch.randn(128, 64) / 8, torch.randn(64, 64) / 8, torch.randn(70, 64).bfloat16()
    first: LinearWeight = FORMS[form](gate_up)
    mlp = GatedMlp(Linear(first), Linear(DenseWeight(down.bfloat16())))
    together = mlp(x, invariant=True)
    gate, up = (x.double() @ dense(first).double().T).chunk(2, dim=1)
    expected = (torch.nn.functional.silu(gate) * up) @ down.double().T
    torch.testing.assert_close(together.double(), expected, rtol=0.05, atol=0.05)
    assert torch.equal(mlp(x[:2], invariant=True), together[:2])


def test_a_bias_keeps_the_gate_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, bias = DenseWeight(torch.randn(32, 16)), torch.randn(32)
    x, down = torch.randn(2, 16), Linear(DenseWeight(torch.eye(16)))
    monkeypatch.setattr(dispatch, "GPU", "cpu")
    monkeypatch.setattr(gated_mlp, "gated_linear", not_called)
    first = Linear(weight, bias)
    assert torch.equal(GatedMlp(first, down)(x, invariant=True), silu_and_mul(first(x, invariant=True)))


def test_on_a_cpu_the_gate_is_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gated_mlp, "gated_linear", not_called)
    mlp = GatedMlp(Linear(DenseWeight(torch.randn(32, 16))), Linear(DenseWeight(torch.randn(16, 16))))
    assert mlp(torch.randn(2, 16), invariant=True).shape == (2, 16)


def not_called(*_: object, **__: object) -> torch.Tensor:
    raise AssertionError("not called here")


def dense(weight: LinearWeight) -> torch.Tensor:
    return weight.weight if isinstance(weight, DenseWeight) else dequantized(weight)
