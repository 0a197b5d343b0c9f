import pytest

from sureact.distributed.shard import Shard


def test_equal_parts_follow_each_other() -> None:
    assert [shard.stretch(12) for shard in Shard(0, 3).all()] == [slice(0, 4), slice(4, 8), slice(8, 12)]


@pytest.mark.parametrize("vocab_size", [64, 65, 288, 1000, 151_936])
@pytest.mark.parametrize("num_ranks", [1, 2])
def test_the_parts_of_a_vocabulary_are_whole_words_and_all_ids(vocab_size: int, num_ranks: int) -> None:
    shards = Shard(0, num_ranks).all()
    ids = [i for shard in shards for i in range(vocab_size)[shard.token_ids(vocab_size)]]
    assert ids == list(range(vocab_size))
    for shard in shards:
        part, words = shard.token_ids(vocab_size), shard.words(vocab_size)
        assert part.start < part.stop
        assert (part.start, -(-part.stop // 32)) == (32 * words.start, words.stop)
