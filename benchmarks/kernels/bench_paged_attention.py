"""Attention of one token, of a draft, of a batch and of a chunk of a prompt, over contexts of several lengths."""

import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it
from benchmarks.harness import BLOCK_SIZE, HEAD_DIM, NUM_KV_HEADS, NUM_Q_HEADS, device, print_machine, report

from sureact_kernels.attention_plan import plan_attention
from sureact_kernels.paged_attention import paged_attention
from sureact_kernels.testing import assert_close

CASES = ((1, 1, 1), (1, 1, 8), (1, 1, 64), (1, 4, 8), (16, 1, 8), (16, 4, 8), (1, 256, 2), (1, 256, 8))
"""Sequences, new tokens of each, and blocks of each."""


def main() -> None:
    """Check the op against torch's attention in float64, then time it."""
    print_machine()
    scale = HEAD_DIM**-0.5
    for num_seqs, query_len, num_blocks in CASES:
        context_len = num_blocks * BLOCK_SIZE
        q = torch.randn(num_seqs * query_len, NUM_Q_HEADS, HEAD_DIM, device=device())
        shape = (2, num_seqs * num_blocks, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM)
        k, v = torch.randn(shape, device=device()).bfloat16().unbind()
        tables = torch.arange(num_seqs * num_blocks, device=device()).view(num_seqs, num_blocks)
        plan = plan_attention(
            tables,
            [query_len] * num_seqs,
            [context_len] * num_seqs,
            block_size=BLOCK_SIZE,
            group=NUM_Q_HEADS // NUM_KV_HEADS,
        )
        flat_k, flat_v = (c.view(num_seqs, -1, NUM_KV_HEADS, HEAD_DIM).transpose(1, 2).double() for c in (k, v))
        rows = q.double().view(num_seqs, query_len, NUM_Q_HEADS, HEAD_DIM).transpose(1, 2)
        visible = torch.ones(query_len, context_len, device=device()).tril(context_len - query_len).bool()
        exact = F.scaled_dot_product_attention(rows, flat_k, flat_v, visible, scale=scale, enable_gqa=True)
        assert_close(paged_attention(q, k, v, plan, scale), exact.transpose(1, 2).flatten(0, 1), q.dtype)
        report(
            "paged_attention",
            f"{num_seqs} x {query_len} tokens of {context_len}",
            lambda q=q, k=k, v=v, plan=plan: paged_attention(q, k, v, plan, scale),
            num_bytes=2 * q.nbytes + k.nbytes + v.nbytes,
        )


if __name__ == "__main__":
    main()
