"""One thing to measure, the sizes of the models it is measured at, and the random tensors it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from benchmarks.harness import device

from sureact_kernels.testing import assert_close


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a model."""

    hidden_size: int
    intermediate_size: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int

    @property
    def qkv_size(self) -> int:
        """Columns of the merged projection of queries, keys and values."""
        return (self.num_q_heads + 2 * self.num_kv_heads) * self.head_dim


MODELS = {
    "qwen3-0.6b": Sizes(1024, 3072, 16, 8, 128, 151_936),
    "qwen3-1.7b": Sizes(2048, 6144, 16, 8, 128, 151_936),
    "qwen3-4b": Sizes(2560, 9728, 32, 8, 128, 151_936),
    "qwen3-8b": Sizes(4096, 12_288, 32, 8, 128, 151_936),
    "tiny": Sizes(64, 128, 2, 1, 32, 320),
}
"""`tiny` is no model; it tells within seconds whether everything runs."""


@dataclass(frozen=True, slots=True)
class Case:
    """An op with its inputs, and what one would call in torch for the same result."""

    shape: str
    run: Callable[[], torch.Tensor | int]
    in_torch: Callable[[], torch.Tensor | int]
    num_bytes: int
    """That the op must read and write at least."""
    flops: int
    tolerance: torch.dtype | None = None
    """The dtype whose tolerance holds between the two results; None if they must be equal."""
    where: torch.Tensor | None = None
    """Which elements of the result count, bool; None for all."""

    def check(self) -> None:
        """Raise an AssertionError if the op and torch disagree: a wrong op has no speed."""
        ours, theirs = self.run(), self.in_torch()
        if not isinstance(ours, torch.Tensor) or not isinstance(theirs, torch.Tensor):
            assert ours == theirs, f"{ours} is not {theirs}"
            return
        if self.where is not None:
            ours, theirs = ours[self.where], theirs[self.where]
        if self.tolerance is None:
            assert torch.equal(ours, theirs), f"{ours} is not {theirs}"
        else:
            assert_close(ours, theirs.double(), self.tolerance)


def activations(*shape: int) -> torch.Tensor:
    """Draw what flows between layers: float32 on a CPU, bfloat16 on a GPU, as in the engine."""
    return torch.randn(shape, device=device()).to(torch.float32 if device().type == "cpu" else torch.bfloat16)


def cached(*shape: int) -> torch.Tensor:
    """Draw bfloat16 numbers, as embeddings and keys and values are kept."""
    return torch.randn(shape, device=device()).bfloat16()


def mask(num_rows: int, vocab_size: int, num_ids: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw `num_ids` that each row allows.

    Returns:
        `[num_rows, vocab_size / 32]`, int32, as constraints write it, and `[num_rows, vocab_size]`, bool.
    """
    is_allowed = torch.zeros(num_rows, vocab_size, dtype=torch.bool, device=device())
    is_allowed[:, torch.randperm(vocab_size, device=device())[:num_ids]] = True
    bits = is_allowed.view(num_rows, -1, 32).long() << torch.arange(32, device=device())
    return bits.sum(-1).to(torch.int32), is_allowed


def shape_of(x: torch.Tensor) -> str:
    """Write shape and dtype."""
    return f"{list(x.shape)} {str(x.dtype).removeprefix('torch.')}"
