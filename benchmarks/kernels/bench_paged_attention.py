"""Attention of one token over contexts of several lengths."""

import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it
from benchmarks.harness import BLOCK_SIZE, HEAD_DIM, NUM_KV_HEADS, NUM_Q_HEADS, device, print_machine, report

from sureact_kernels.paged_attention import paged_attention
from sureact_kernels.testing import assert_close


def main() -> None:
    """Check the op against torch's attention in float64, then time it."""
    print_machine()
    scale = HEAD_DIM**-0.5
    for num_blocks in (1, 8, 64):
        context_len = num_blocks * BLOCK_SIZE
        q = torch.randn(1, NUM_Q_HEADS, HEAD_DIM, device=device()).bfloat16()
        k, v = torch.randn(2, num_blocks, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM, device=device()).bfloat16().unbind()
        tables = torch.arange(num_blocks, device=device())[None]
        lens = [context_len]
        flat_k, flat_v = (cache.transpose(0, 1).flatten(1, 2).double() for cache in (k, v))
        exact = F.scaled_dot_product_attention(
            q.double().transpose(0, 1)[None], flat_k[None], flat_v[None], scale=scale, enable_gqa=True
        )
        assert_close(paged_attention(q, k, v, tables, lens, scale), exact[0].transpose(0, 1), q.dtype)
        report(
            "paged_attention",
            f"context {context_len}, bfloat16",
            lambda q=q, k=k, v=v, tables=tables, lens=lens: paged_attention(q, k, v, tables, lens, scale),
            num_bytes=2 * q.nbytes + k.nbytes + v.nbytes,
        )


if __name__ == "__main__":
    main()
