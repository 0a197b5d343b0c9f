"""The slow path's forward pass: transformers' own model, one sequence after another, with its own cache each."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

import torch

from sureact.errors import UnsupportedModelError
from sureact.execution.memory import KVShape
from sureact.execution.model_runner import ModelRunner
from sureact.execution.pass_output import PassOutput
from sureact.kv_cache.cached_sequence import CachedSequence

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedModel
    from transformers.cache_utils import DynamicCache

    from sureact.scheduling.batch import Batch, ScheduledRequest


def foreign_kv_shape(folder: Path, max_model_len: int | None) -> KVShape:
    """Read from any config what the cache is sized by; where a model keeps no keys and values, one head stands in.

    Raises:
        UnsupportedModelError: transformers does not know the architecture, or nothing says how long a context may be.
    """
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, KeyError, OSError) as error:
        raise UnsupportedModelError(f"transformers cannot read the config in {folder}: {error}") from error
    text = config.get_text_config()

    def first(*names: str) -> int | None:
        return next((value for name in names if isinstance(value := getattr(text, name, None), int)), None)

    longest = first("max_position_embeddings", "n_positions", "max_seq_len", "seq_length") or max_model_len
    if longest is None:
        raise UnsupportedModelError(
            f"The config of {type(config).__name__} does not say how long a context may be. Give max_model_len."
        )
    num_heads = first("num_attention_heads", "n_head", "num_heads") or 1
    return KVShape(
        num_layers=first("num_hidden_layers", "n_layer", "num_layers") or 1,
        num_kv_heads=first("num_key_value_heads") or num_heads,
        head_dim=first("head_dim") or (first("hidden_size", "n_embd", "d_model") or num_heads) // num_heads,
        max_position_embeddings=longest,
    )


class TransformersRunner(ModelRunner):
    """Runs any causal model of transformers. What a sequence has cached is decided here, not by its block table."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        # transformers 5.20 and later call it `cache` and warn at the old name.
        has_new_name = "cache" in inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if has_new_name else "past_key_values"
        self._caches: WeakKeyDictionary[CachedSequence, DynamicCache] = WeakKeyDictionary()

    @property
    def weight_bytes_per_token(self) -> int:
        """Bytes of all parameters, but for the embedding where it is not the head: an upper bound with experts."""
        embedding = self._model.get_input_embeddings().weight
        head = self._model.get_output_embeddings()
        total = sum(parameter.nbytes for parameter in self._model.parameters())
        is_tied = head is not None and head.weight is embedding
        return total if is_tied else total - cast("torch.Tensor", embedding).nbytes

    @torch.inference_mode()
    def run(self, batch: Batch, fill_masks: Callable[[], torch.Tensor]) -> PassOutput:
        """Run the entries one by one."""
        rows = [self._run_entry(entry) for entry in batch.entries]
        fill_masks()
        return PassOutput(torch.cat(rows))

    def _run_entry(self, entry: ScheduledRequest) -> torch.Tensor:
        """Compute what the model's cache lacks of the entry's tokens; return its rows of logits."""
        sequence = entry.request.sequence
        cache = self._cache_of_length(sequence, entry.start)
        token_ids = [*sequence.token_ids[cache.get_seq_length() : entry.end], *entry.draft]
        input_ids = torch.tensor([token_ids], device=self._model.device)
        num_rows = max(1, entry.num_picks)
        output = self._model(
            input_ids=input_ids, use_cache=True, logits_to_keep=num_rows, **{self._cache_argument: cache}
        )
        return output.logits[0, -num_rows:].float()[: entry.num_picks]

    def _cache_of_length(self, sequence: CachedSequence, num_tokens: int) -> DynamicCache:
        """Return the sequence's cache, cut to `num_tokens`; a new one where there is none or it cannot be cut."""
        from transformers.cache_utils import DynamicCache, DynamicLayer

        cache = self._caches.get(sequence)
        if cache is not None and cache.get_seq_length() > num_tokens:
            # Sliding windows and recurrent states have forgotten what a cut would need.
            if all(type(layer) is DynamicLayer for layer in cache.layers):
                cache.crop(num_tokens)
            else:
                cache = None
        if cache is None:
            cache = self._caches[sequence] = DynamicCache(config=self._model.config)
        return cache
