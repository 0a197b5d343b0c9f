"""The tokens of one context and the cache blocks that hold their keys and values."""

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False, weakref_slot=True)
class CachedSequence:
    """A growing list of token ids; the first `num_cached` of them have keys and values in `block_table`."""

    token_ids: list[int] = field(default_factory=list[int])
    block_table: list[int] = field(default_factory=list[int])
    """Blocks in order; block `i` holds positions `i * block_size` to `(i + 1) * block_size - 1`."""
    num_cached: int = 0
    is_running: bool = False
    """Whether a request works on it now, so that it must not be evicted."""
    last_used: int = 0
    """Clock of the owner's last use, for least-recently-used eviction."""

    def __len__(self) -> int:
        """Tokens, cached or not."""
        return len(self.token_ids)
