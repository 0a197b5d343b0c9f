"""One process's part of a model: its blocks, its part of the head, its part of the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it

from sureact.distributed.communicator import Communicator
from sureact.distributed.shard import WORD_BITS
from sureact.errors import WorkerLostError
from sureact.execution.model_runner import PagedModelRunner
from sureact.execution.shard_orders import PassInputs
from sureact.kv_cache.storage import KVStorage
from sureact.layers.linear import SummedLinear
from sureact.layers.mixture_of_experts import MixtureOfExperts, SummedExperts
from sureact.models.causal_lm import CausalLM
from sureact.models.decoder_block import DecoderBlock

SUMS_PER_BLOCK = 2
"""One behind attention, one behind the feed-forward part."""


class ShardedModel:
    """A model whose matrices hold one part each.

    All processes make the same calls. What fails in one of them fails there alone: it goes on with NaN, so that the
    others do not wait for it, and keeps the error for who asks.
    """

    def __init__(
        self, model: CausalLM, storage: KVStorage, communicator: Communicator, *, block_size: int, is_strict: bool
    ) -> None:
        """Take a model built of `load_shard`'s weights; its products begin to add up over the processes."""
        model.blocks = [_summed(block, communicator) for block in model.blocks]
        self._model = model
        self._storage = storage
        self._communicator = communicator
        self._device = model.embedding.device
        self._dtype = model.final_norm.weight.dtype
        self._cache = PagedModelRunner(model, storage, block_size=block_size, is_strict=is_strict)
        self._error: Exception | None = None

    @property
    def weight_bytes_per_token(self) -> int:
        """Bytes of this part's matrices that one decoded token reads."""
        return self._model.weight_bytes_per_token

    @torch.inference_mode()
    def blocks(self, inputs: PassInputs) -> torch.Tensor:
        """Run the blocks; return the hidden states of the picked rows, `[num_picks, hidden_size]`."""
        expected = self._communicator.num_sums + SUMS_PER_BLOCK * len(self._model.blocks)
        try:
            token_ids = torch.tensor(inputs.token_ids, device=self._device)
            hidden = self._model.forward(token_ids, inputs.metadata(self._device), self._storage.layers)
            return hidden[inputs.picked_rows]
        except WorkerLostError:
            raise
        except Exception as error:  # the others are in the middle of their pass
            self._error = error
        nothing = self._nan(len(inputs.token_ids), self._model.config.hidden_size)
        while self._communicator.num_sums < expected:
            self._communicator.sum(nothing)
        return nothing[inputs.picked_rows]

    @torch.inference_mode()
    def likeliest(self, hidden: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """Find the allowed token with the largest logit per row over all parts; the lowest id on ties.

        Args:
            hidden: from `blocks`.
            masks: bitmask `[num_picks, words]` of the whole vocabulary, on the host.

        Returns:
            `[num_picks, 2]`, float64: the logit, which is -inf where nothing is allowed and NaN where a logit is, and
            the id.
        """
        best = self._own(lambda: self._own_likeliest(hidden, masks), lambda: self._nan(len(hidden), 2).double())
        by_rank = self._communicator.all_gather(best)
        # Of equal ones argmax takes the first, which has the lower ids, and NaN before any number.
        winner = by_rank[..., 0].argmax(0)
        return by_rank[winner, torch.arange(len(hidden), device=self._device)]

    @torch.inference_mode()
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits of all parts side by side, `[num_picks, vocab_size]`, float32."""
        vocab_size = self._model.config.vocab_size
        parts = [part.token_ids(vocab_size) for part in self._communicator.shard.all()]
        widths = [part.stop - part.start for part in parts]
        # A collective takes tensors of one size.
        own = self._own(lambda: self._own_logits(hidden), lambda: self._nan(len(hidden), self._own_width).float())
        by_rank = self._communicator.all_gather(F.pad(own, (0, max(widths) - own.shape[1])))
        return torch.cat([logits[:, :width] for logits, width in zip(by_rank, widths, strict=True)], dim=1)

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy cache blocks, from the first of each pair to the second, in order."""
        self._cache.copy_blocks(copies)

    def clear_blocks(self, blocks: Sequence[int]) -> None:
        """Zero cache blocks."""
        self._cache.clear_blocks(blocks)

    @property
    def has_error(self) -> bool:
        """Whether something failed here since `take_error` was called last."""
        return self._error is not None

    def take_error(self) -> Exception | None:
        """Return what failed here since this was asked last."""
        error, self._error = self._error, None
        return error

    def close(self) -> None:
        """Leave the group."""
        self._communicator.close()

    @property
    def _own_width(self) -> int:
        own = self._communicator.shard.token_ids(self._model.config.vocab_size)
        return own.stop - own.start

    def _own_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._model.lm_head(hidden, invariant=True).float()

    def _own_likeliest(self, hidden: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        shard, vocab_size = self._communicator.shard, self._model.config.vocab_size
        words = masks[:, shard.words(vocab_size)].to(self._device)
        bits = (words.unsqueeze(-1) >> torch.arange(WORD_BITS, dtype=torch.int32, device=self._device)) & 1
        is_allowed = bits.flatten(1)[:, : self._own_width].bool()
        values = self._own_logits(hidden).masked_fill_(~is_allowed, -torch.inf)
        picked = values.argmax(dim=1, keepdim=True)
        first_id = shard.token_ids(vocab_size).start
        # float64 holds both exactly, so that one collective carries them.
        return torch.cat((values.gather(1, picked).double(), (picked + first_id).double()), dim=1)

    def _own(self, compute: Callable[[], torch.Tensor], instead: Callable[[], torch.Tensor]) -> torch.Tensor:
        try:
            return compute()
        except Exception as error:  # the others wait for this part
            self._error = self._error or error
            return instead()

    def _nan(self, num_rows: int, num_columns: int) -> torch.Tensor:
        return torch.full((num_rows, num_columns), torch.nan, dtype=self._dtype, device=self._device)


def _summed(block: DecoderBlock, communicator: Communicator) -> DecoderBlock:
    """Let the two parts of a block add up over the processes."""
    attention, mlp = block.attention, block.mlp
    attention.o = SummedLinear(attention.o.weight, attention.o.bias, communicator)
    if isinstance(mlp, MixtureOfExperts):
        return replace(block, mlp=SummedExperts(mlp, communicator))
    mlp.down = SummedLinear(mlp.down.weight, mlp.down.bias, communicator)
    return block
