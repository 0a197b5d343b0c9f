import pytest

from sureact.errors import OutOfMemoryError
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.kv_cache.paged_cache import PagedCache
from sureact.sampling_params import SamplingParams
from sureact.scheduling.batch import Batch
from sureact.scheduling.request import Request
from sureact.scheduling.scheduler import Scheduler
from sureact.tokens.vocabulary import Vocabulary

VOCABULARY = Vocabulary(
    token_bytes=tuple(bytes([i]) for i in range(256)),
    control_ids=frozenset(),
    unused_ids=frozenset(),
    eos_ids=(0,),
    tokenizer_json=None,
    fingerprint="test",
)


class Bench:
    """A scheduler over a small cache, with a model that always says `a`."""

    def __init__(self, num_blocks: int = 20, max_running: int = 3, chunk: int = 8) -> None:
        self.cache = PagedCache(num_blocks, block_size=4)
        self.scheduler = Scheduler(self.cache, max_running_requests=max_running, prefill_chunk_len=chunk)

    def add(self, num_tokens: int, max_tokens: int = 2) -> Request:
        sequence = CachedSequence([97] * num_tokens)
        self.cache.add(sequence)
        request = Request(sequence, SamplingParams(max_tokens=max_tokens), VOCABULARY, str.encode)
        self.scheduler.add(request)
        return request

    def step(self) -> Batch | None:
        batch = self.scheduler.schedule()
        self.cache.check()
        for entry in batch.entries if batch else ():
            ends = entry.is_last_chunk
            entry.request.sequence.num_cached = entry.end
            if ends:
                entry.request.accept(97, None)
            if entry.request.is_done:
                self.scheduler.remove(entry.request)
        self.cache.check()
        return batch


def shape(batch: Batch | None) -> list[tuple[int, int, bool]]:
    assert batch is not None
    return [(entry.start, entry.num_tokens, entry.is_prefill) for entry in batch.entries]


def test_a_long_prompt_comes_in_chunks_while_others_decode() -> None:
    bench = Bench()
    bench.add(3, max_tokens=5)
    bench.step()
    bench.add(18)
    assert shape(bench.step()) == [(3, 1, False), (0, 8, True)]
    assert shape(bench.step()) == [(4, 1, False), (8, 8, True)]
    assert shape(bench.step()) == [(5, 1, False), (16, 2, True)]


def test_prompts_share_a_chunk_in_the_order_they_came() -> None:
    bench = Bench()
    bench.add(5)
    bench.add(5)
    assert shape(bench.step()) == [(0, 5, True), (0, 3, True)]


def test_no_more_run_than_allowed_and_the_next_follows_when_one_ends() -> None:
    bench = Bench(max_running=1)
    bench.add(2, max_tokens=1)
    bench.add(3, max_tokens=1)
    assert shape(bench.step()) == [(0, 2, True)]
    assert shape(bench.step()) == [(0, 3, True)]
    assert bench.step() is None
    assert not bench.scheduler.has_work


def test_a_request_waits_for_the_memory_it_may_need_and_is_not_overtaken() -> None:
    bench = Bench(num_blocks=4)
    bench.add(8, max_tokens=4)
    bench.add(8, max_tokens=4)
    bench.add(1, max_tokens=1)
    assert len(shape(bench.step())) == 1
    assert bench.scheduler.num_waiting == 2


def test_a_request_that_can_never_fit_fails_alone() -> None:
    bench = Bench(num_blocks=4)
    too_long = bench.add(15, max_tokens=4)
    fits = bench.add(4, max_tokens=4)
    assert shape(bench.step()) == [(0, 4, True)]
    with pytest.raises(OutOfMemoryError):
        list(too_long.deltas())
    assert not fits.is_done


def test_a_full_cache_hit_still_computes_the_last_token() -> None:
    bench = Bench()
    request = bench.add(6)
    assert bench.cache.reserve(request.sequence, 6)
    request.sequence.num_cached = 6
    assert shape(bench.step()) == [(5, 1, True)]
    assert request.num_cached_at_start == 5
