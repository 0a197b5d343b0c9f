"""The SwiGLU feed-forward block."""

import torch

from sureact.layers.linear import Linear
from sureact_kernels.dispatch import is_on_gpu
from sureact_kernels.gated_linear import gated_linear
from sureact_kernels.linear import tensors_of
from sureact_kernels.silu_and_mul import silu_and_mul


class GatedMlp:
    """`down(silu(gate(x)) * up(x))` with gate and up in one product, on a GPU with the gate in it."""

    __slots__ = ("_is_fused", "down", "gate_up")

    def __init__(self, gate_up: Linear, down: Linear) -> None:
        self.gate_up = gate_up
        self.down = down
        self._is_fused = gate_up.bias is None and is_on_gpu(tensors_of(gate_up.weight)[0])

    def __call__(self, x: torch.Tensor, *, invariant: bool) -> torch.Tensor:
        """Map `[num_tokens, hidden_size]` to the same shape."""
        if self._is_fused:
            return self.down(gated_linear(x, self.gate_up.weight, invariant=invariant), invariant=invariant)
        return self.down(silu_and_mul(self.gate_up(x, invariant=invariant)), invariant=invariant)
