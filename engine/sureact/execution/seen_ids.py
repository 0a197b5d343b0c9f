"""Which token ids a text holds, known without reading all of it again for each token."""

import numpy as np
import torch


class _FollowedText:
    """The tokens of one text that grows."""

    def __init__(self) -> None:
        self._token_ids: list[int] = []

    def added(self, token_ids: list[int]) -> tuple[list[int], bool]:
        """Return what came to the text since the last call, and whether it is a continuation; else all is new."""
        num_known = len(self._token_ids)
        continues = self._token_ids == token_ids[:num_known]
        if not continues:
            self._token_ids, num_known = [], 0
        fresh = token_ids[num_known:]
        self._token_ids += fresh
        return fresh, continues


class SeenIds:
    """The distinct ids of one text. Follows a text that grows; one that changed otherwise is read anew."""

    def __init__(self) -> None:
        self._text = _FollowedText()
        self._distinct: set[int] = set()
        self._ids = torch.empty(0, dtype=torch.int64)

    def of(self, token_ids: list[int], device: torch.device) -> torch.Tensor:
        """Return each id of `token_ids` once, in no order, on `device`."""
        added, continues = self._text.added(token_ids)
        if not continues:
            self._distinct, self._ids = set(), self._ids[:0]
        fresh = set(added) - self._distinct
        if fresh or self._ids.device != device:
            self._ids = torch.cat([self._ids.to(device), torch.tensor(list(fresh), dtype=torch.int64, device=device)])
        self._distinct |= fresh
        return self._ids


class SeenBits:
    """The ids of one text as a bitmask, followed like `SeenIds`."""

    def __init__(self, num_logits: int) -> None:
        self._text = _FollowedText()
        self._flags = np.zeros(-(-num_logits // 32) * 32, dtype=np.bool_)

    def of(self, token_ids: list[int]) -> np.ndarray:
        """Return `[ceil(num_logits / 32)]`, int32: bit `id % 32` of word `id // 32` for each id; new."""
        added, continues = self._text.added(token_ids)
        if not continues:
            self._flags[:] = False
        self._flags[added] = True
        # The order of bytes in a word is the host's, little-endian.
        return np.packbits(self._flags, bitorder="little").view(np.int32)
