import torch

from sureact.layers.gated_mlp import GatedMlp
from sureact.layers.linear import Linear
from sureact_kernels.linear import DenseWeight


def test_is_down_of_the_gated_up() -> None:
    gate, up, down, x = torch.randn(12, 8), torch.randn(12, 8), torch.randn(8, 12), torch.randn(3, 8)
    mlp = GatedMlp(Linear(DenseWeight(torch.cat((gate, up)))), Linear(DenseWeight(down)))
    expected = (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T
    torch.testing.assert_close(mlp(x, invariant=True), expected, rtol=1e-4, atol=1e-4)
