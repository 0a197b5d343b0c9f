"""Residual addition and normalization of one and of many rows."""

import torch
from benchmarks.harness import HIDDEN_SIZE, device, print_machine, report

from sureact_kernels.add_rms_norm import add_rms_norm
from sureact_kernels.testing import assert_close


def main() -> None:
    """Check the sum against float64, then time the op."""
    print_machine()
    for num_tokens in (1, 16, 512):
        x = torch.randn(num_tokens, HIDDEN_SIZE, device=device()).bfloat16()
        residual = torch.randn_like(x)
        weight = torch.rand(HIDDEN_SIZE, device=device()).bfloat16()
        assert_close(add_rms_norm(x, residual, weight, 1e-6)[1], x.double() + residual.double(), x.dtype)
        report(
            "add_rms_norm",
            f"[{num_tokens}, {HIDDEN_SIZE}] bfloat16",
            lambda x=x, residual=residual, weight=weight: add_rms_norm(x, residual, weight, 1e-6),
            num_bytes=4 * x.nbytes + weight.nbytes,
        )


if __name__ == "__main__":
    main()
