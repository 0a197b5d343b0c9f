from sureact.kv_cache.cached_sequence import CachedSequence


def test_length_counts_tokens_whether_cached_or_not() -> None:
    assert len(CachedSequence([1, 2, 3], num_cached=1)) == 3


def test_two_sequences_of_the_same_tokens_are_two() -> None:
    assert CachedSequence([1]) != CachedSequence([1])
