"""The gate of a SwiGLU block for one and for many rows."""

import torch
from benchmarks.harness import INTERMEDIATE_SIZE, device, print_machine, report

from sureact_kernels.silu_and_mul import silu_and_mul
from sureact_kernels.testing import assert_close


def main() -> None:
    """Check the op against float64, then time it."""
    print_machine()
    for num_tokens in (1, 16, 512):
        gate_up = torch.randn(num_tokens, 2 * INTERMEDIATE_SIZE, device=device()).bfloat16()
        gate, up = gate_up.double().chunk(2, dim=-1)
        assert_close(silu_and_mul(gate_up), gate * gate.sigmoid() * up, gate_up.dtype)
        report(
            "silu_and_mul",
            f"[{num_tokens}, 2 * {INTERMEDIATE_SIZE}] bfloat16",
            lambda gate_up=gate_up: silu_and_mul(gate_up),
            num_bytes=gate_up.nbytes * 3 // 2,
        )


if __name__ == "__main__":
    main()
