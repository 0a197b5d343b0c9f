"""Which token ids a text holds, known without reading all of it again for each token."""

import torch


class SeenIds:
    """The distinct ids of one text. Follows a text that grows; one that changed otherwise is read anew."""

    def __init__(self) -> None:
        self._token_ids: list[int] = []
        self._distinct: set[int] = set()
        self._ids = torch.empty(0, dtype=torch.int64)

    def of(self, token_ids: list[int], device: torch.device) -> torch.Tensor:
        """Return each id of `token_ids` once, in no order, on `device`."""
        num_known = len(self._token_ids)
        if self._token_ids != token_ids[:num_known]:
            self._token_ids, self._distinct, self._ids = [], set(), self._ids[:0]
            num_known = 0
        added = token_ids[num_known:]
        fresh = set(added) - self._distinct
        if fresh or self._ids.device != device:
            self._ids = torch.cat([self._ids.to(device), torch.tensor(list(fresh), dtype=torch.int64, device=device)])
        self._token_ids += added
        self._distinct |= fresh
        return self._ids
