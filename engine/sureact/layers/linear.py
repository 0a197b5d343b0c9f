"""A weight matrix with its bias."""

import torch

from sureact_kernels.linear import LinearWeight, linear


class Linear:
    """`x @ weight.T + bias`."""

    __slots__ = ("bias", "weight")

    def __init__(self, weight: LinearWeight, bias: torch.Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, x: torch.Tensor, *, invariant: bool) -> torch.Tensor:
        """Map `[num_tokens, in_features]` to `[num_tokens, out_features]`."""
        return linear(x, self.weight, self.bias, invariant=invariant)
