"""Rotation of queries and keys, and writing keys and values into the cache."""

import torch
from benchmarks.harness import BLOCK_SIZE, HEAD_DIM, NUM_KV_HEADS, NUM_Q_HEADS, device, print_machine, report

from sureact_kernels.qk_norm_rope_store import qk_norm_rope_store


def main() -> None:
    """Check that a rotation by no angle changes nothing, then time the op."""
    print_machine()
    num_heads = NUM_Q_HEADS + 2 * NUM_KV_HEADS
    cache = torch.zeros(2, 8, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM, dtype=torch.bfloat16, device=device())
    for num_tokens in (1, 16, 512):
        qkv = torch.randn(num_tokens, num_heads * HEAD_DIM, device=device()).bfloat16()
        cos = torch.ones(num_tokens, HEAD_DIM, device=device())
        sin, slots = torch.zeros_like(cos), torch.arange(num_tokens, device=device())
        rotated = qk_norm_rope_store(qkv, cos, sin, cache[0], cache[1], slots)
        assert torch.equal(rotated.flatten(1), qkv[:, : NUM_Q_HEADS * HEAD_DIM])
        report(
            "qk_norm_rope_store",
            f"[{num_tokens}, {num_heads} * {HEAD_DIM}] bfloat16",
            lambda qkv=qkv, cos=cos, sin=sin, slots=slots: qk_norm_rope_store(qkv, cos, sin, cache[0], cache[1], slots),
            num_bytes=2 * qkv.nbytes + 2 * cos.nbytes,
        )


if __name__ == "__main__":
    main()
