"""What a model would have picked at each position of a given text, and how likely it finds that text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sureact.config import BLOCK_SIZE
from sureact.kv_cache.storage import KVStorage
from sureact.layers.attention_metadata import AttentionMetadata
from sureact.models.causal_lm import CausalLM


@dataclass(frozen=True, slots=True)
class ReferenceText:
    """A prompt and what follows it, as token ids."""

    prompt_ids: list[int]
    continuation_ids: list[int]


@dataclass(frozen=True, slots=True)
class Scores:
    """Of every position of every continuation, in order."""

    picks: list[int]
    """The likeliest token."""
    log_probs: list[float]
    """Natural logarithm of the probability of the text's own token."""

    def agreement(self, other: "Scores") -> float:
        """Share of positions where both find the same token likeliest."""
        pairs = list(zip(self.picks, other.picks, strict=True))
        return sum(mine == theirs for mine, theirs in pairs) / len(pairs)

    @property
    def perplexity(self) -> float:
        """Of the continuations."""
        return math.exp(-sum(self.log_probs) / len(self.log_probs))


@torch.inference_mode()
def score(model: CausalLM, dtype: torch.dtype, texts: Sequence[ReferenceText]) -> Scores:
    """Run the model over each text once, with products as exact as those of strict decoding.

    What a text has in common with the one before it is not computed again; strict products make that the same.

    Args:
        model: on the CPU.
        dtype: of keys and values.
        texts: what to score.
    """
    picks: list[int] = []
    log_probs: list[float] = []
    longest = max(len(text.prompt_ids) + len(text.continuation_ids) for text in texts)
    storage = _storage(model, dtype, longest)
    cached_ids: list[int] = []
    for text in texts:
        targets = torch.tensor(text.continuation_ids)
        # The logits that pick a token stand at the position before it.
        ids = text.prompt_ids + text.continuation_ids[:-1]
        start = min(_num_shared(ids, cached_ids), len(text.prompt_ids) - 1)
        hidden = model.forward(torch.tensor(ids[start:]), _rest_of_text(start, len(ids)), storage.layers)
        cached_ids = ids
        logits = model.logits(hidden[-len(targets) :])
        picks += logits.argmax(dim=1).tolist()
        log_probs += logits.log_softmax(dim=1).gather(1, targets[:, None]).flatten().tolist()
    return Scores(picks, log_probs)


def _storage(model: CausalLM, dtype: torch.dtype, num_tokens: int) -> KVStorage:
    config = model.config
    return KVStorage(
        num_layers=config.num_layers,
        num_blocks=-(-num_tokens // BLOCK_SIZE),
        num_kv_heads=config.num_kv_heads,
        block_size=BLOCK_SIZE,
        head_dim=config.head_dim,
        dtype=dtype,
        device=torch.device("cpu"),
    )


def _num_shared(ids: list[int], others: list[int]) -> int:
    """Return how many ids two lists begin with in common."""
    pairs = zip(ids, others, strict=False)
    return next((index for index, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(ids), len(others)))


def _rest_of_text(start: int, end: int) -> AttentionMetadata:
    """Describe a stretch of one sequence whose blocks are the first ones."""
    return AttentionMetadata(
        positions=torch.arange(start, end),
        slot_mapping=torch.arange(start, end),
        block_tables=torch.arange(-(-end // BLOCK_SIZE))[None],
        context_lens=(end,),
        query_lens=(end - start,),
        is_invariant=True,
    )
