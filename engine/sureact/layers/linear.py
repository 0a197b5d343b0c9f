"""A weight matrix with its bias."""

import torch

from sureact.distributed.communicator import Communicator
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


class SummedLinear(Linear):
    """A share of a matrix's columns: the products of all processes add up, then comes the bias."""

    __slots__ = ("_communicator",)

    def __init__(self, weight: LinearWeight, bias: torch.Tensor | None, communicator: Communicator) -> None:
        super().__init__(weight, bias)
        self._communicator = communicator

    def __call__(self, x: torch.Tensor, *, invariant: bool) -> torch.Tensor:
        """Map `[num_tokens, in_features / num_ranks]` to `[num_tokens, out_features]`, the same in all processes."""
        out = self._communicator.sum(linear(x, self.weight, invariant=invariant))
        return out if self.bias is None else out.add_(self.bias)
