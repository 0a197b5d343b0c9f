"""A random token, with and without filters."""

import torch
from benchmarks.harness import VOCAB_SIZE, device, print_machine, report

from sureact_kernels.sample import sample


def main() -> None:
    """Check that the coldest draw is the likeliest token, then time the op."""
    print_machine()
    logits = torch.randn(VOCAB_SIZE, device=device())
    bitmask = torch.full((VOCAB_SIZE // 32,), -1, dtype=torch.int32, device=device())
    assert sample(logits, bitmask, 0.5, temperature=1e-4) == logits.argmax().item()
    report(
        "sample",
        f"[{VOCAB_SIZE}] float32, temperature",
        lambda: sample(logits, bitmask, 0.5, temperature=0.7),
        num_bytes=logits.nbytes + bitmask.nbytes,
    )
    report(
        "sample",
        f"[{VOCAB_SIZE}] float32, top_k and top_p",
        lambda: sample(logits, bitmask, 0.5, temperature=0.7, top_k=50, top_p=0.9),
        num_bytes=logits.nbytes + bitmask.nbytes,
    )


if __name__ == "__main__":
    main()
