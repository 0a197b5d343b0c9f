"""Causal attention of a prompt, invariant and fused."""

import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it
from benchmarks.harness import BLOCK_SIZE, HEAD_DIM, NUM_KV_HEADS, NUM_Q_HEADS, device, print_machine, report

from sureact_kernels.prefill_attention import prefill_attention
from sureact_kernels.testing import assert_close


def main() -> None:
    """Check the op against torch's attention in float64, then time both of its routines."""
    print_machine()
    scale = HEAD_DIM**-0.5
    for num_blocks in (1, 4, 8):
        length = num_blocks * BLOCK_SIZE
        q = torch.randn(length, NUM_Q_HEADS, HEAD_DIM, device=device()).bfloat16()
        k, v = torch.randn(2, num_blocks, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM, device=device()).bfloat16().unbind()
        tables = torch.arange(num_blocks, device=device())[None]
        flat_k, flat_v = (cache.transpose(0, 1).flatten(1, 2).double() for cache in (k, v))
        exact = F.scaled_dot_product_attention(
            q.double().transpose(0, 1)[None], flat_k[None], flat_v[None], is_causal=True, scale=scale, enable_gqa=True
        )
        for name, invariant in (("strict", True), ("fast", False)):

            def run(q: torch.Tensor = q, invariant: bool = invariant) -> torch.Tensor:
                return prefill_attention(q, k, v, tables, [len(q)], [len(q)], scale, invariant=invariant)  # noqa: B023

            assert_close(run(), exact[0].transpose(0, 1), q.dtype)
            report(
                "prefill_attention",
                f"{length} tokens, bfloat16, {name}",
                run,
                num_bytes=2 * q.nbytes + k.nbytes + v.nbytes,
            )


if __name__ == "__main__":
    main()
