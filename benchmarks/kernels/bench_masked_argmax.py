"""The likeliest allowed token, where everything and where little is allowed."""

import torch
from benchmarks.harness import VOCAB_SIZE, device, print_machine, report

from sureact_kernels.masked_argmax import masked_argmax


def main() -> None:
    """Check the pick, then time the op with a full and with a narrow mask."""
    print_machine()
    logits = torch.randn(1, VOCAB_SIZE, device=device())
    everything = torch.full((1, VOCAB_SIZE // 32), -1, dtype=torch.int32, device=device())
    narrow = torch.zeros_like(everything)
    narrow[0, 100] = -1
    assert masked_argmax(logits, everything).item() == logits.argmax().item()
    assert masked_argmax(logits, narrow).item() == 3200 + logits[0, 3200:3232].argmax().item()
    for name, bitmask in (("all tokens", everything), ("32 tokens", narrow)):
        report(
            "masked_argmax",
            f"[1, {VOCAB_SIZE}] float32, {name}",
            lambda bitmask=bitmask: masked_argmax(logits, bitmask),
            num_bytes=logits.nbytes + bitmask.nbytes,
        )


if __name__ == "__main__":
    main()
