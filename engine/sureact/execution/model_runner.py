"""The forward pass: from a batch to logits."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch

from sureact.execution.pass_output import PassOutput
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

    @property
    def runs_ahead(self) -> bool:
        """Whether it may compute a token behind those of a pass before it is asked to."""
        return False

    @abstractmethod
    def run(self, batch: Batch, fill_masks: Callable[[], torch.Tensor]) -> PassOutput:
        """Compute the batch's tokens and drafts; the caller marks them as cached.

        Args:
            batch: what to compute.
            fill_masks: called once the blocks are under way; returns the ids whose logits are needed, `[num_picks,
                words]`, int32, on the host. Other logits may be anything, but not above the needed ones or NaN.

        Returns:
            Per entry that reaches its sequence's end a row for that end and one for each drafted token, in order.
        """

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:  # noqa: B027  most runners keep nothing in blocks
        """Copy the contents of cache blocks, from the first of each pair to the second, in order."""

    def clear_blocks(self, blocks: Sequence[int]) -> None:  # noqa: B027  most runners keep nothing in blocks
        """Overwrite what a failed request left in cache blocks, which may be infinite or NaN."""

    def close(self) -> None:  # noqa: B027  most runners hold nothing but memory
        """End what the runner holds beside memory, such as other processes."""


class PagedModelRunner(ModelRunner):
    """Runs our own models over the paged cache."""

    def __init__(self, model: CausalLM, storage: KVStorage, *, block_size: int, is_strict: bool) -> None:
        self.model = model
        self.storage = storage
        self.block_size = block_size
        self.is_strict = is_strict
        self._device = model.embedding.device

    @property
    def weight_bytes_per_token(self) -> int:
        """Bytes of all matrices in their stored form; of the experts, as many as a token visits."""
        return self.model.weight_bytes_per_token

    @torch.inference_mode()
    def run(self, batch: Batch, fill_masks: Callable[[], torch.Tensor]) -> PassOutput:
        """Run every entry's tokens in one pass."""
        token_ids = [token_id for entry in batch.entries for token_id in entry.token_ids]
        metadata = self._attention_metadata(batch)
        hidden = self.model.forward(torch.tensor(token_ids, device=self._device), metadata, self.storage.layers)
        needed = fill_masks()
        rows = self._picked_rows(batch.entries)
        if not rows:
            return PassOutput(hidden.new_empty((0, self.model.config.vocab_size), dtype=torch.float32))
        return PassOutput(self.model.logits(hidden if len(rows) == len(hidden) else hidden[rows], needed))

    @torch.inference_mode()
    def try_prompt(self, block: int) -> None:
        """Compute a prompt of one block, which it writes: a kernel that fails is off before others rely on it."""
        length = self.block_size
        metadata = AttentionMetadata(
            positions=torch.arange(length, device=self._device),
            slot_mapping=torch.arange(block * length, (block + 1) * length, device=self._device),
            block_tables=torch.tensor([[block]], device=self._device),
            context_lens=(length,),
            query_lens=(length,),
            is_invariant=self.is_strict,
        )
        token_ids = torch.zeros(length, dtype=torch.int64, device=self._device)
        self.model.logits(self.model.forward(token_ids, metadata, self.storage.layers)[-1:])

    @torch.inference_mode()
    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy blocks in every layer."""
        with self._in_order():
            for source, target in copies:
                for key_cache, value_cache in self.storage.layers:
                    key_cache[target] = key_cache[source]
                    value_cache[target] = value_cache[source]

    def read_blocks(self, blocks: Sequence[int], num_tokens: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the keys and values of the first tokens in `blocks`, per layer, new, on the host.

        Each `[num_tokens, num_kv_heads, head_dim]`, in the dtype of the cache.
        """
        index = list(blocks)
        with self._in_order():
            return [
                (keys[index].flatten(0, 1)[:num_tokens].cpu(), values[index].flatten(0, 1)[:num_tokens].cpu())
                for keys, values in self.storage.layers
            ]

    def write_blocks(self, blocks: Sequence[int], layers: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Write what `read_blocks` returned into the first slots of `blocks`."""
        with self._in_order():
            index = torch.tensor(list(blocks), dtype=torch.long, device=self._device)
            slots = (index[:, None] * self.block_size + torch.arange(self.block_size, device=self._device)).flatten()
            for cache_pair, tensors in zip(self.storage.layers, layers, strict=True):
                for cache, tensor in zip(cache_pair, tensors, strict=True):
                    cache.flatten(0, 1)[slots[: len(tensor)]] = tensor.to(self._device)

    def clear_blocks(self, blocks: Sequence[int]) -> None:
        """Zero the blocks in every layer: attention multiplies unused slots by 0, and 0 times NaN is NaN."""
        with self._in_order():
            for key_cache, value_cache in self.storage.layers:
                key_cache[list(blocks)] = 0
                value_cache[list(blocks)] = 0

    def _in_order(self) -> AbstractContextManager[object]:
        """Work on the stream of the passes, whatever stream the calling thread uses: the cache has one order."""
        if self._device.type != "cuda":
            return nullcontext()
        return torch.cuda.stream(torch.cuda.default_stream(self._device))

    def _attention_metadata(self, batch: Batch) -> AttentionMetadata:
        positions: list[int] = []
        slots: list[int] = []
        for entry in batch.entries:
            table = entry.request.sequence.block_table
            stretch = range(entry.start, entry.start + entry.num_rows)
            positions += stretch
            slots += [
                table[position // self.block_size] * self.block_size + position % self.block_size
                for position in stretch
            ]
        return AttentionMetadata(
            positions=torch.tensor(positions, device=self._device),
            slot_mapping=torch.tensor(slots, device=self._device),
            block_tables=self._block_tables(batch.entries),
            context_lens=tuple(entry.start + entry.num_rows for entry in batch.entries),
            query_lens=tuple(entry.num_rows for entry in batch.entries),
            is_invariant=self.is_strict or batch.is_decode,
        )

    def _block_tables(self, entries: Sequence[ScheduledRequest]) -> torch.Tensor:
        """Return the blocks that the tokens so far fill, rows padded with each table's first block."""
        used = [e.request.sequence.block_table[: -(-(e.start + e.num_rows) // self.block_size)] for e in entries]
        width = max(map(len, used))
        return torch.tensor([table + table[:1] * (width - len(table)) for table in used], device=self._device)

    @staticmethod
    def _picked_rows(entries: Sequence[ScheduledRequest]) -> list[int]:
        """Return the rows of the pass whose next token is picked."""
        rows: list[int] = []
        end = 0
        for entry in entries:
            end += entry.num_rows
            rows += range(end - entry.num_picks, end)
        return rows
