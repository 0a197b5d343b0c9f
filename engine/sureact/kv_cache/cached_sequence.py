"""The tokens of one context and the cache blocks that hold their keys and values."""

from dataclasses import dataclass, field

from sureact.errors import ConfigError
from sureact.kv_cache.prefix_index import Prefix


@dataclass(slots=True, eq=False, weakref_slot=True)
class CachedSequence:
    """A growing list of token ids; the first `num_cached` of them have keys and values in `block_table`.

    Its owner may append tokens, and take the last ones away if it lowers `num_cached` with them; all else goes through
    `PagedCache`.
    """

    token_ids: list[int] = field(default_factory=list[int])
    block_table: list[int] = field(default_factory=list[int])
    """Blocks in order; block `i` holds positions `i * block_size` to `(i + 1) * block_size - 1`."""
    num_cached: int = 0
    is_running: bool = False
    """Whether a request works on it now, so that it must not be evicted."""
    last_used: int = 0
    """Clock of the cache at the last use, for least-recently-used eviction."""
    cache_salt: str | None = None
    """Only sequences of the same salt share what they computed, but for public prefixes. Fixed from the beginning."""
    prefixes: list[Prefix] = field(default_factory=list[Prefix], repr=False)
    """The cache's own: the prefix that ends with each computed full block, from the first on."""
    branch: Prefix | None = field(default=None, repr=False)
    """The cache's own: after which prefix others may find the block begun but not full."""

    def __post_init__(self) -> None:
        """Refuse a salt that is no text: whatever asks for a context passes here.

        Raises:
            ConfigError: `cache_salt` is neither a text nor None.
        """
        _require_salt(self.cache_salt)

    def __len__(self) -> int:
        """Tokens, cached or not."""
        return len(self.token_ids)


def _require_salt(salt: object) -> None:
    if not isinstance(salt, str | None):
        raise ConfigError(f"cache_salt is {salt!r}; it must be a text, or None.")
