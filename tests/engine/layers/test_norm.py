import torch

from sureact.layers.norm import RmsNorm


def test_adding_normalizes_the_sum_and_returns_it_too() -> None:
    norm = RmsNorm(torch.randn(8), 1e-6)
    x, residual = torch.randn(3, 8), torch.randn(3, 8)
    normed, total = norm.add(x, residual)
    assert torch.equal(total, x + residual)
    assert torch.equal(normed, norm(total))
