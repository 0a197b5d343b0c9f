from typing import Any

import pytest

from sureact.errors import ConfigError
from sureact.kv_cache.cached_sequence import CachedSequence


def test_length_counts_tokens_whether_cached_or_not() -> None:
    assert len(CachedSequence([1, 2, 3], num_cached=1)) == 3


def test_two_sequences_of_the_same_tokens_are_two() -> None:
    assert CachedSequence([1]) != CachedSequence([1])


@pytest.mark.parametrize("salt", [3, 1.5, b"x", ("a",), ["a"]])
def test_a_salt_that_is_no_text_is_refused(salt: Any) -> None:
    with pytest.raises(ConfigError, match=r"cache_salt is .*; it must be a text, or None"):
        CachedSequence([1], cache_salt=salt)
