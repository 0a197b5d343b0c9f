"""The SwiGLU feed-forward block."""

import torch

from sureact.layers.linear import Linear
from sureact_kernels.silu_and_mul import silu_and_mul


class GatedMlp:
    """`down(silu(gate(x)) * up(x))` with gate and up in one product."""

    __slots__ = ("down", "gate_up")

    def __init__(self, gate_up: Linear, down: Linear) -> None:
        self.gate_up = gate_up
        self.down = down

    def __call__(self, x: torch.Tensor, *, invariant: bool) -> torch.Tensor:
        """Map `[num_tokens, hidden_size]` to the same shape."""
        return self.down(silu_and_mul(self.gate_up(x, invariant=invariant)), invariant=invariant)
