import torch

from sureact.layers.linear import Linear
from sureact_kernels.linear import DenseWeight


def test_multiplies_by_the_weight_and_adds_the_bias() -> None:
    weight, bias, x = torch.randn(6, 8), torch.randn(6), torch.randn(3, 8)
    expected = (x.double() @ weight.double().T + bias).float()
    torch.testing.assert_close(Linear(DenseWeight(weight), bias)(x, invariant=True), expected)
