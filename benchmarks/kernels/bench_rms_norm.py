"""Normalization of one and of many rows."""

import torch
from benchmarks.harness import HIDDEN_SIZE, device, print_machine, report

from sureact_kernels.rms_norm import rms_norm
from sureact_kernels.testing import assert_close


def main() -> None:
    """Check the op against float64, then time it."""
    print_machine()
    for num_tokens in (1, 16, 512):
        x = torch.randn(num_tokens, HIDDEN_SIZE, device=device()).bfloat16()
        weight = torch.rand(HIDDEN_SIZE, device=device()).bfloat16()
        wide = x.double()
        exact = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * weight.double()
        assert_close(rms_norm(x, weight, 1e-6), exact, x.dtype)
        report(
            "rms_norm",
            f"[{num_tokens}, {HIDDEN_SIZE}] bfloat16",
            lambda x=x, weight=weight: rms_norm(x, weight, 1e-6),
            num_bytes=2 * x.nbytes + weight.nbytes,
        )


if __name__ == "__main__":
    main()
