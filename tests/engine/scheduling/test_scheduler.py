import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sureact.engine import Engine
from sureact.errors import OutOfMemoryError, PromptTooLongError
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

    def __init__(
        self, num_blocks: int = 20, max_running: int = 3, chunk: int = 8, *, reserves_ahead: bool = False
    ) -> None:
        self.cache = PagedCache(num_blocks, block_size=4)
        self.scheduler = Scheduler(
            self.cache, max_running_requests=max_running, prefill_chunk_len=chunk, reserves_ahead=reserves_ahead
        )
        self.ids = itertools.cycle(range(1, 256))  # so that no prompt begins like another

    def add(self, num_tokens: int, max_tokens: int = 2) -> Request:
        return self.add_ids([next(self.ids) for _ in range(num_tokens)], max_tokens)

    def add_ids(self, token_ids: list[int], max_tokens: int = 2, cache_salt: str | None = None) -> Request:
        sequence = CachedSequence(token_ids, cache_salt=cache_salt)
        self.cache.add(sequence)
        request = Request(sequence, SamplingParams(max_tokens=max_tokens), VOCABULARY, str.encode)
        self.scheduler.add(request)
        return request

    def step(self) -> Batch | None:
        batch = self.scheduler.schedule()
        self.cache.check()
        for entry in batch.entries if batch else ():
            ends = entry.is_last_chunk
            self.cache.commit(entry.request.sequence, entry.end)
            if ends:
                entry.request.accept(97, None)
            if entry.request.is_done:
                self.scheduler.remove(entry.request)
        self.cache.check()
        return batch


def shape(batch: Batch | None) -> list[tuple[int, int, bool]]:
    assert batch is not None
    return [(entry.start, entry.num_tokens, entry.is_prefill) for entry in batch.entries]


def test_a_long_prompt_comes_in_shorter_chunks_while_others_decode() -> None:
    bench = Bench(num_blocks=60, chunk=128)
    bench.add(200)
    assert shape(bench.step()) == [(0, 128, True)]
    bench = Bench(num_blocks=60, chunk=128)
    bench.add(3, max_tokens=5)
    bench.step()
    bench.add(70)
    assert shape(bench.step()) == [(3, 1, False), (0, 32, True)]
    assert shape(bench.step()) == [(4, 1, False), (32, 32, True)]
    assert shape(bench.step()) == [(5, 1, False), (64, 6, True)]


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


def test_a_prompt_that_begins_like_one_computed_now_waits_and_adopts_it() -> None:
    bench = Bench(num_blocks=60, max_running=9, chunk=64)
    prompt = list(range(1, 31))
    first, second = bench.add_ids([*prompt, 40]), bench.add_ids([*prompt, 50])
    salted = bench.add_ids([*prompt, 60], cache_salt="other")
    assert shape(bench.step()) == [(0, 31, True), (0, 31, True)]
    assert bench.scheduler.num_running == 3
    assert shape(bench.step())[-1] == (30, 1, True)
    assert [r.num_cached_at_start for r in (first, second, salted)] == [0, 30, 0]


def test_the_newest_gives_its_blocks_to_an_older_one_and_is_computed_again() -> None:
    bench = Bench(num_blocks=5)
    older, newer = bench.add(7, max_tokens=9), bench.add(7, max_tokens=9)
    while bench.scheduler.num_preemptions == 0:
        assert bench.step() is not None
    assert bench.scheduler.requests()[0] is older
    assert newer.sequence.block_table == []
    num_generated = len(newer.generated_ids)
    assert num_generated > 0
    while bench.step():
        pass
    assert older.is_done
    assert newer.is_done
    assert len(newer.generated_ids) == len(older.generated_ids) == 9


def test_prompts_that_hold_blocks_do_not_block_each_other() -> None:
    bench = Bench(num_blocks=5, chunk=8)
    requests = [bench.add(15, max_tokens=3) for _ in range(3)]
    for _ in range(60):
        if bench.step() is None:
            break
    assert all(request.is_done for request in requests)


def test_a_request_that_can_never_fit_is_refused_with_numbers() -> None:
    bench = Bench(num_blocks=4)
    with pytest.raises(OutOfMemoryError, match="15 tokens and max_tokens=4 do not fit into the KV cache of 16"):
        bench.add(15, max_tokens=4)
    bench.add(4, max_tokens=4)
    assert shape(bench.step()) == [(0, 4, True)]


def test_a_full_cache_hit_still_computes_the_last_token() -> None:
    bench = Bench()
    request = bench.add(6)
    assert bench.cache.reserve(request.sequence, 6)
    bench.cache.commit(request.sequence, 6)
    assert shape(bench.step()) == [(5, 1, True)]
    assert request.num_cached_at_start == 5


@pytest.fixture
def crowded(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Engine, list[Request]]]:
    """An engine with room for three blocks, and the requests that it preempted."""
    with Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.0002) as engine:
        scheduler: Any = engine._loop._scheduler  # pyright: ignore[reportPrivateUsage]
        preempt, preempted = scheduler._preempt, list[Request]()

        def remember(request: Request) -> None:
            preempt(request)
            preempted.append(request)

        monkeypatch.setattr(scheduler, "_preempt", remember)
        yield engine, preempted
        assert (scheduler.num_running, scheduler.num_waiting) == (0, 0)
        engine._cache.check()  # pyright: ignore[reportPrivateUsage]


def test_a_request_that_fits_no_cache_is_refused_with_numbers(crowded: tuple[Engine, list[Request]]) -> None:
    engine, _ = crowded
    with pytest.raises(PromptTooLongError, match=r"300 tokens; this engine takes 384 including max_tokens=100"):
        engine.generate("a" * 300, SamplingParams(max_tokens=100))
    assert engine.generate("a" * 300, SamplingParams(max_tokens=9, ignore_eos=True)).finish_reason == "length"


def test_what_is_preempted_after_accepted_guesses_goes_on_the_same(crowded: tuple[Engine, list[Request]]) -> None:
    engine, preempted = crowded
    params = SamplingParams(max_tokens=90, ignore_eos=True)
    prompts = ["abcabcabc" * 10, "abababab" * 11, "xyxyzxyxyz" * 9, "0" * 90]
    together = [output.token_ids for output in engine.generate(prompts, params)]
    assert any(request.guesses.accepted for request in preempted)
    assert together == [engine.generate(prompt, params).token_ids for prompt in prompts]


def test_a_preempted_request_can_be_aborted(crowded: tuple[Engine, list[Request]]) -> None:
    engine, preempted = crowded
    params = SamplingParams(max_tokens=90, ignore_eos=True)
    expected = engine.generate("a" * 100, params).token_ids
    older, newer = engine.stream("a" * 100, params), engine.stream("b" * 100, params)
    third = engine.stream("c" * 100, params)
    while not preempted:
        next(older)
    request = preempted[0]
    engine.loop.abort(request)
    assert request.is_done
    assert not engine.loop.holds(request)
    assert older.read_output().token_ids[-5:] == expected[-5:]
    reasons = sorted(stream.read_output().finish_reason for stream in (newer, third))
    assert reasons == ["abort", "length"]


def test_a_thousand_queued_requests_all_finish(tiny_engine: Engine) -> None:
    params = SamplingParams(max_tokens=2, ignore_eos=True)
    prompts = [tiny_engine.encode(f"prompt number {index % 50}") for index in range(1000)]
    outputs = tiny_engine.generate(prompts, params)
    expected = [tiny_engine.generate(prompt, params).token_ids for prompt in prompts[:50]]
    assert [output.token_ids for output in outputs] == expected * 20
    tiny_engine._cache.check()  # pyright: ignore[reportPrivateUsage]


def test_decoding_requests_have_room_two_tokens_ahead_but_none_beyond_their_end() -> None:
    bench = Bench(reserves_ahead=True)
    request = bench.add(5, max_tokens=6)
    sizes: list[tuple[int, int]] = []
    while not request.is_done:
        bench.step()
        sizes.append((len(request.sequence) - 1, len(request.sequence.block_table)))
    # Tokens computed, and blocks of 4: of the prompt as many as it fills, then for two tokens more, 11 in all.
    assert sizes == [(5, 2), (6, 2), (7, 3), (8, 3), (9, 3), (10, 3)]


def test_room_ahead_is_not_taken_from_those_that_run() -> None:
    bench = Bench(num_blocks=4, reserves_ahead=True)
    requests = [bench.add(5, max_tokens=3), bench.add(5, max_tokens=3)]
    while not all(request.is_done for request in requests):
        bench.step()
    assert bench.scheduler.num_preemptions == 0
