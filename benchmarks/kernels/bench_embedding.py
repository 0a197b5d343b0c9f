"""Rows of the embedding table."""

import torch
from benchmarks.harness import HIDDEN_SIZE, VOCAB_SIZE, device, print_machine, report

from sureact_kernels.embedding import embedding


def main() -> None:
    """Check the rows, then time the op."""
    print_machine()
    weight = torch.randn(VOCAB_SIZE, HIDDEN_SIZE, dtype=torch.bfloat16, device=device())
    for num_tokens in (1, 16, 512):
        token_ids = torch.randint(VOCAB_SIZE, (num_tokens,), device=device())
        rows = embedding(token_ids, weight)
        assert torch.equal(rows, weight[token_ids])
        report(
            "embedding",
            f"[{num_tokens}] of [{VOCAB_SIZE}, {HIDDEN_SIZE}] bfloat16",
            lambda token_ids=token_ids: embedding(token_ids, weight),
            num_bytes=2 * rows.nbytes,
        )


if __name__ == "__main__":
    main()
