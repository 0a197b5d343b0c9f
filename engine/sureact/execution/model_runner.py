"""The forward pass: from a batch to logits."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from sureact.kv_cache.storage import KVStorage
from sureact.layers.attention_metadata import AttentionMetadata
from sureact.models.causal_lm import CausalLM
from sureact.scheduling.batch import Batch, ScheduledRequest


class ModelRunner(ABC):
    """Computes logits for a batch. What it needs to remember of a sequence it keeps itself."""

    @property
    @abstractmethod
    def weight_bytes_per_token(self) -> int:
        """Bytes of weight matrices that one decoded token reads: the figure that bounds its speed."""

    @abstractmethod
    def run(self, batch: Batch) -> torch.Tensor:
        """Compute the batch's tokens and mark them as cached by the caller.

        Returns:
            `[rows, num_logits]`, float32: one row per entry that reaches its sequence's end, in order.
        """

    def clear_blocks(self, blocks: Sequence[int]) -> None:  # noqa: B027  most runners keep nothing in blocks
        """Overwrite what a failed request left in cache blocks, which may be infinite or NaN."""


class PagedModelRunner(ModelRunner):
    """Runs our own models over the paged cache."""

    def __init__(self, model: CausalLM, storage: KVStorage, *, block_size: int, is_strict: bool) -> None:
        self._model = model
        self._storage = storage
        self._block_size = block_size
        self._is_strict = is_strict
        self._device = model.embedding.device

    @property
    def weight_bytes_per_token(self) -> int:
        """Bytes of all matrices in their stored form; of the experts, as many as a token visits."""
        return self._model.weight_bytes_per_token

    @torch.inference_mode()
    def run(self, batch: Batch) -> torch.Tensor:
        """Run every entry's tokens in one pass."""
        token_ids = [t for e in batch.entries for t in e.request.sequence.token_ids[e.start : e.end]]
        metadata = self._attention_metadata(batch)
        hidden = self._model.forward(torch.tensor(token_ids, device=self._device), metadata, self._storage.layers)
        last_rows = self._last_rows(batch.entries)
        if not last_rows:
            return hidden.new_empty((0, self._model.config.vocab_size), dtype=torch.float32)
        return self._model.logits(hidden if len(last_rows) == len(hidden) else hidden[last_rows])

    def clear_blocks(self, blocks: Sequence[int]) -> None:
        """Zero the blocks in every layer: attention multiplies unused slots by 0, and 0 times NaN is NaN."""
        for key_cache, value_cache in self._storage.layers:
            key_cache[list(blocks)] = 0
            value_cache[list(blocks)] = 0

    def _attention_metadata(self, batch: Batch) -> AttentionMetadata:
        positions: list[int] = []
        slots: list[int] = []
        for entry in batch.entries:
            table = entry.request.sequence.block_table
            positions += range(entry.start, entry.end)
            slots += [
                table[position // self._block_size] * self._block_size + position % self._block_size
                for position in range(entry.start, entry.end)
            ]
        return AttentionMetadata(
            positions=torch.tensor(positions, device=self._device),
            slot_mapping=torch.tensor(slots, device=self._device),
            block_tables=self._block_tables(batch.entries),
            context_lens=tuple(entry.end for entry in batch.entries),
            query_lens=tuple(entry.num_tokens for entry in batch.entries),
            is_invariant=self._is_strict or batch.is_decode,
        )

    def _block_tables(self, entries: Sequence[ScheduledRequest]) -> torch.Tensor:
        """Return the blocks that the tokens so far fill, rows padded with each table's first block."""
        used = [e.request.sequence.block_table[: -(-e.end // self._block_size)] for e in entries]
        width = max(map(len, used))
        return torch.tensor([table + table[:1] * (width - len(table)) for table in used], device=self._device)

    @staticmethod
    def _last_rows(entries: Sequence[ScheduledRequest]) -> list[int]:
        """Return the row of each entry's last token, for entries that reach their sequence's end."""
        rows: list[int] = []
        end = 0
        for entry in entries:
            end += entry.num_tokens
            if entry.is_last_chunk:
                rows.append(end - 1)
        return rows
