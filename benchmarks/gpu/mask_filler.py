"""Masks for constrained steps, written by the host while the body of the model runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from sureact.constraints.token_bitmask import allocate_token_bitmask

MaskFiller = Callable[[], torch.Tensor]

_NUM_PREPARED = 8


class NumpyFiller:
    """Copies another prepared mask at every step; the ids are drawn once.

    Args:
        batch: rows.
        vocab_size: ids.
        num_ids: that each row allows.
    """

    def __init__(self, batch: int, vocab_size: int, num_ids: int) -> None:
        draw = np.random.default_rng(num_ids)
        is_allowed = np.zeros((_NUM_PREPARED, batch, -(-vocab_size // 32) * 32), dtype=np.uint8)
        for row in is_allowed.reshape(-1, is_allowed.shape[-1]):
            row[draw.permutation(vocab_size)[:num_ids]] = 1
        self._prepared = np.packbits(is_allowed, axis=-1, bitorder="little").view(np.int32)
        # Pinned on a GPU, as the engine's are.
        self._masks = allocate_token_bitmask(batch, vocab_size)
        self._num_filled = 0

    def __call__(self) -> torch.Tensor:
        """Return the masks of the next step, `[batch, words]`, int32; they are overwritten by those after."""
        np.copyto(self._masks.numpy(), self._prepared[self._num_filled % _NUM_PREPARED])
        self._num_filled += 1
        return self._masks
