"""What a forward pass says of the tokens that come next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, eq=False)
class PassOutput:
    """One row per position whose next token is picked, in the order of the batch."""

    logits: torch.Tensor | None
    """`[num_rows, num_logits]`, float32; None where every row's `likeliest` is the answer."""
    likeliest: tuple[int, ...] | None = None
    """Of each row the token with the largest logit among those its mask allows, after the repetition penalty of its
    request; None where the device did not look for it."""

    def rows(self, start: int, end: int) -> PassOutput:
        """Return some of the rows."""
        logits = None if self.logits is None else self.logits[start:end]
        return PassOutput(logits, None if self.likeliest is None else self.likeliest[start:end])
