"""The product of gate and up with the gate: dense in bfloat16."""

import torch
from benchmarks.harness import HIDDEN_SIZE, INTERMEDIATE_SIZE, device, print_machine, report

from sureact_kernels.gated_linear import gated_linear
from sureact_kernels.linear import DenseWeight
from sureact_kernels.testing import assert_close


def main() -> None:
    """Check the op against float64, then time it with one and with many rows."""
    print_machine()
    matrix = (torch.randn(2 * INTERMEDIATE_SIZE, HIDDEN_SIZE, device=device()) / HIDDEN_SIZE**0.5).bfloat16()
    weight = DenseWeight(matrix)
    for num_tokens in (1, 2, 4, 8, 16, 32, 64, 256, 1024):
        x = torch.randn(num_tokens, HIDDEN_SIZE, device=device()).bfloat16()
        gate, up = (x.double() @ matrix.double().T).chunk(2, dim=-1)
        assert_close(gated_linear(x, weight), gate * gate.sigmoid() * up, torch.bfloat16)
        report(
            "gated_linear",
            f"[{num_tokens}, {HIDDEN_SIZE}] x 2 * {INTERMEDIATE_SIZE} bfloat16",
            lambda x=x: gated_linear(x, weight),
            num_bytes=x.nbytes + weight.num_bytes + 2 * num_tokens * INTERMEDIATE_SIZE,
        )


if __name__ == "__main__":
    main()
