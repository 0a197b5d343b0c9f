"""Keys and values of one sequence, out of the cache and into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sureact.errors import SessionError
from sureact.execution.model_runner import PagedModelRunner
from sureact.execution.sharded_runner import ShardedRunner

if TYPE_CHECKING:
    import torch

    from sureact.execution.engine_loop import EngineLoop
    from sureact.kv_cache.cached_sequence import CachedSequence
    from sureact.kv_cache.paged_cache import PagedCache

LayerKV = tuple["torch.Tensor", "torch.Tensor"]
"""Keys and values of one layer, each `[num_tokens, num_kv_heads, head_dim]`."""


def read_kv(loop: EngineLoop, sequence: CachedSequence) -> list[LayerKV]:
    """Copy the keys and values of the cached tokens of a sequence that no request works on, per layer.

    Raises:
        SessionError: the model runs in transformers, which keeps them to itself, or in several processes.
    """
    with loop.between_steps() as runner:
        if isinstance(runner, ShardedRunner):
            raise SessionError(
                "The model runs in several processes, each with keys and values of its own heads. Save without with_kv."
            )
        if not isinstance(runner, PagedModelRunner):
            raise SessionError(
                "The model runs in transformers, which keeps keys and values to itself. Save without with_kv."
            )
        return runner.read_blocks(sequence.block_table, sequence.num_cached)


def write_kv(loop: EngineLoop, cache: PagedCache, sequence: CachedSequence, layers: Sequence[LayerKV]) -> str:
    """Give a sequence that has none the keys and values of its first tokens.

    Returns:
        Why they cannot be used; empty if they are.
    """
    num_tokens = len(layers[0][0])
    with loop.between_steps() as runner:
        if not isinstance(runner, PagedModelRunner):
            return "the model runs in transformers or in several processes"
        if _forms(layers) != _forms(runner.read_blocks([], 0)):
            return "they have other shapes than those of this model"
        if not cache.reserve(sequence, num_tokens):
            return "running requests leave no room for them"
        runner.copy_blocks(cache.take_copies())
        runner.write_blocks(sequence.block_table, layers)
        cache.commit(sequence, num_tokens)
    return ""


def _forms(layers: Sequence[LayerKV]) -> list[tuple[torch.Size, torch.dtype]]:
    """Return the shape of one token's keys and values in each layer."""
    return [(tensor.shape[1:], tensor.dtype) for pair in layers for tensor in pair]
