"""The loop frees what an aborted request holds, leads constrained texts out of their dead ends, and never breaks."""

import threading
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from sureact.constraints.constraint import Constraint
from sureact.engine import Engine
from sureact.errors import ConstraintError, InternalError, OutOfMemoryError, RequestAbortedError
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.sampling_params import SamplingParams
from sureact.scheduling.batch import Batch
from sureact.scheduling.request import Request

LONG = SamplingParams(max_tokens=500, ignore_eos=True)

FiniteConstraintMaker = Callable[..., Constraint]
WORDS = {bytes(letters) for letters in product(b"abcd", repeat=3)}
VALID = {b"dab", b"dcd"}
"""Few of 64 words, so that nearly every way ends dead."""


@pytest.fixture(scope="module", params=[("none", "float32"), ("int8", "bfloat16")], ids=["float32", "int8"])
def engine(request: pytest.FixtureRequest, tiny_folder: Path) -> Iterator[Engine]:
    """An engine that asserts the cache's invariants after each step."""
    quantization, dtype = request.param
    options: dict[str, Any] = {"quantization": quantization, "dtype": dtype, "kv_cache_gb": 0.0079}
    with Engine(str(tiny_folder), **options) as engine:
        loop = engine._loop  # pyright: ignore[reportPrivateUsage]
        step = loop.step

        def checked_step() -> bool:
            ran = step()
            with loop.lock:
                engine._cache.check()  # pyright: ignore[reportPrivateUsage]
            return ran

        loop.step = checked_step
        yield engine


def assert_idle(engine: Engine) -> None:
    loop = engine._loop  # pyright: ignore[reportPrivateUsage]
    with loop.lock:
        scheduler = loop._scheduler  # pyright: ignore[reportPrivateUsage]
        assert (scheduler.num_running, scheduler.num_waiting) == (0, 0)
        engine._cache.check()  # pyright: ignore[reportPrivateUsage]


def assert_idle_soon(engine: Engine) -> None:
    """What is forgotten is freed by the next step, since the garbage collector must not wait."""
    end = time.monotonic() + 10
    while time.monotonic() < end and engine.stats().num_running + engine.stats().num_waiting:
        time.sleep(0.01)
    assert_idle(engine)


def test_a_stream_collected_in_the_middle_of_the_books_leaves_them_alone(tiny_engine: Engine) -> None:
    stream = tiny_engine.stream("abc", LONG)
    next(stream)
    loop = tiny_engine._loop  # pyright: ignore[reportPrivateUsage]
    with loop.lock:
        steps = tiny_engine.stats().num_steps
        stream.__del__()
        assert tiny_engine.stats().num_steps == steps
        assert loop.holds(stream._request)  # pyright: ignore[reportPrivateUsage]
    assert_idle_soon(tiny_engine)


def test_an_abandoned_stream_is_idle_at_once(tiny_engine: Engine) -> None:
    stream = tiny_engine.stream("abc", LONG)
    next(stream)
    stream.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert_idle(tiny_engine)


def test_an_interrupt_in_the_reader_frees_the_request(tiny_engine: Engine) -> None:
    def read() -> None:
        for count, _ in enumerate(tiny_engine.stream("abc", LONG)):
            if count == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read()
    assert_idle_soon(tiny_engine)


def test_many_threads_come_and_go(tiny_engine: Engine) -> None:
    def work(index: int) -> None:
        stream = tiny_engine.stream("x" * (index + 1), LONG)
        for _ in range(index % 5):
            next(stream)
        stream.close()  # pyright: ignore[reportAttributeAccessIssue]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_idle(tiny_engine)


def test_stats_count_tokens_and_time(tiny_engine: Engine) -> None:
    before = tiny_engine.stats()
    tiny_engine.generate("~^`|", SamplingParams(max_tokens=6, ignore_eos=True))
    after = tiny_engine.stats()
    assert after.num_requests - before.num_requests == 1
    assert after.prefill_tokens - before.prefill_tokens == 4
    assert after.decode_tokens - before.decode_tokens == 5
    assert after.decode_s > before.decode_s
    assert after.decode_tokens_per_s > 0
    assert after.prefill_tokens_per_s > 0


def test_readers_learn_when_the_loop_breaks(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.004)
    monkeypatch.setattr(engine._loop._scheduler, "schedule", _broken)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(InternalError, match="RuntimeError: broken books"):
        engine.generate("abc", LONG)
    with pytest.raises(RequestAbortedError):
        engine.generate("abc", LONG)


def _broken() -> None:
    raise RuntimeError("broken books")


@pytest.mark.parametrize(
    ("prompt", "settings"),
    [
        ("a", {}),
        ("good morning", {"presence_penalty": 1.5}),
        # Tokens are taken back over the border of a block.
        ("x" * 126, {"repetition_penalty": 1.3}),
        ("y" * 127, {"logprobs": 2}),
        ("z" * 128, {}),
    ],
)
def test_what_is_found_after_dead_ends_is_what_an_exact_mask_finds(
    prompt: str, settings: dict[str, Any], engine: Engine, finite_constraint: FiniteConstraintMaker
) -> None:
    """Each position's logits depend on the text before it alone, however often that text was changed."""
    before = engine.stats()
    params = SamplingParams(max_tokens=6, **settings)
    found = engine.generate(prompt, params, finite_constraint(VALID, WORDS)).completions[0]
    after = engine.stats()
    exact = engine.generate(prompt, params, finite_constraint(VALID)).completions[0]
    assert after.num_rollbacks > before.num_rollbacks
    assert after.num_dead_ends >= after.num_rollbacks
    assert after.num_vetoes > before.num_vetoes
    assert found.text.encode() in VALID
    assert (found.token_ids, found.logprobs) == (exact.token_ids, exact.logprobs)
    assert found.usage.prompt_tokens == exact.usage.prompt_tokens
    assert found.usage.completion_tokens == exact.usage.completion_tokens


def test_draws_come_to_a_valid_text_too(engine: Engine, finite_constraint: FiniteConstraintMaker) -> None:
    params = SamplingParams(max_tokens=6, temperature=3.0, seed=3, n=3)
    completions = engine.generate("abc", params, finite_constraint(VALID, WORDS)).completions
    assert {completion.text.encode() for completion in completions} <= VALID


def test_a_request_that_rolls_back_and_its_neighbors_get_what_they_get_alone(
    engine: Engine, finite_constraint: FiniteConstraintMaker
) -> None:
    free, limited = SamplingParams(max_tokens=30, ignore_eos=True), SamplingParams(max_tokens=6)
    constraint = finite_constraint(VALID, WORDS)
    asked: list[tuple[Any, ...]] = [("neighbor", free), ("one", limited, constraint), ("another", limited, constraint)]
    streams = [engine.stream(*arguments) for arguments in asked]
    together = [stream.read_output().token_ids for stream in streams]
    assert together == [engine.generate(*arguments).token_ids for arguments in asked]


def test_a_stream_shows_nothing_that_is_taken_back(engine: Engine, finite_constraint: FiniteConstraintMaker) -> None:
    before = engine.stats().num_rollbacks
    deltas = list(engine.stream("hello", SamplingParams(max_tokens=6), finite_constraint(VALID, WORDS)))
    assert engine.stats().num_rollbacks > before
    output = deltas[-1].output
    assert output is not None
    assert "".join(delta.text for delta in deltas) == output.text
    assert sum((delta.token_ids for delta in deltas), ()) == output.token_ids


def test_a_forced_way_is_left_without_computing_it_again(
    engine: Engine, finite_constraint: FiniteConstraintMaker
) -> None:
    params = SamplingParams(max_tokens=9)
    first = engine.generate("abc", params, finite_constraint({b"x", b"y"})).text.encode()
    (other,) = {b"x", b"y"} - {first}
    before = engine.stats()
    assert engine.generate("abc", params, finite_constraint({other}, {first + b"12345!"})).text.encode() == other
    after = engine.stats()
    assert after.num_dead_ends - before.num_dead_ends == 6
    assert after.num_rollbacks - before.num_rollbacks == 6
    # Behind the first token five come on the wrong way; then the prompt's last token is computed once more.
    assert after.decode_tokens - before.decode_tokens == 5
    assert after.prefill_tokens - before.prefill_tokens == 4


def test_max_tokens_counts_the_tokens_that_stand(engine: Engine, finite_constraint: FiniteConstraintMaker) -> None:
    constraint = finite_constraint(VALID, WORDS)
    output = engine.generate("hello", SamplingParams(max_tokens=3), constraint).completions[0]
    assert output.text.encode() in VALID
    assert (output.finish_reason, output.usage.completion_tokens) == ("stop", 3)
    cut = engine.generate("hello", SamplingParams(max_tokens=2), constraint).completions[0]
    assert (cut.finish_reason, cut.usage.completion_tokens) == ("length", 2)


def test_a_text_that_cannot_be_begun_is_an_error(engine: Engine, finite_constraint: FiniteConstraintMaker) -> None:
    before = engine.stats()
    with pytest.raises(ConstraintError, match="every token that can begin the text, after 3 tokens"):
        engine.generate("abc", None, finite_constraint(set(), {b"aaaa"}))
    after = engine.stats()
    assert after.num_dead_ends - before.num_dead_ends == 4
    assert after.num_budget_exhausted == before.num_budget_exhausted
    assert_idle(engine)


def test_a_constraint_without_dead_ends_fails_as_before(
    engine: Engine, finite_constraint: FiniteConstraintMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraint: Any = finite_constraint(set(), {b"aa"})
    state = type(constraint.compile(engine.vocabulary).new_state())
    monkeypatch.delattr(state, "mark_dead_end")
    with pytest.raises(ConstraintError, match="No token of this vocabulary"):
        engine.generate("abc", None, constraint)


@pytest.mark.parametrize("max_rollbacks", [0, 5])
def test_a_spent_budget_is_an_error_that_names_it(
    max_rollbacks: int, tiny_folder: Path, finite_constraint: FiniteConstraintMaker
) -> None:
    options: dict[str, Any] = {"quantization": "none", "dtype": "float32", "kv_cache_gb": 0.004}
    with Engine(str(tiny_folder), max_rollbacks=max_rollbacks, **options) as engine:
        with pytest.raises(ConstraintError, match=f"{max_rollbacks} tokens were taken back.*or raise max_rollbacks"):
            engine.generate("abc", None, finite_constraint(set(), WORDS))
        stats = engine.stats()
        assert (stats.num_rollbacks, stats.num_budget_exhausted) == (max_rollbacks, 1)
        assert_idle(engine)


NEIGHBORS = ("neighbor", "abcabcabcabc", "z" * 140)
SHORT = SamplingParams(max_tokens=30, ignore_eos=True)


def beside_neighbors(engine: Engine, *asked: Any) -> tuple[list[bool], Exception | None]:
    """Generate between others; return whether each of those got what it gets alone, and how that one failed."""
    streams = [engine.stream(prompt, SHORT) for prompt in NEIGHBORS]
    error: Exception | None = None
    try:
        engine.stream(*asked).read_output()
    except Exception as failed:
        error = failed
    together = [stream.read_output().token_ids for stream in streams]
    return [engine.generate(p, SHORT).token_ids == ids for p, ids in zip(NEIGHBORS, together, strict=True)], error


@pytest.mark.parametrize("num_generated", [0, 5])
@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (MemoryError("no room"), OutOfMemoryError),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), OutOfMemoryError),
        (RuntimeError("CUDA error: something else"), RuntimeError),
    ],
    ids=["MemoryError", "allocator", "other"],
)
def test_a_pass_that_fails_ends_the_request_at_fault_only(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, raised: Exception, expected: type[Exception], num_generated: int
) -> None:
    runner: Any = engine._loop._runner  # pyright: ignore[reportPrivateUsage]
    run, prompt = runner.run, engine.encode("the one at fault")

    def fail(batch: Batch, fill_masks: Any) -> Any:
        sequences = [entry.request.sequence.token_ids for entry in batch.entries]
        if any(ids[: len(prompt)] == prompt and len(ids) >= len(prompt) + num_generated for ids in sequences):
            raise raised
        return run(batch, fill_masks)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "run", fail)
        are_right, error = beside_neighbors(engine, "the one at fault", SHORT)
    assert type(error) is expected
    assert are_right == [True] * len(NEIGHBORS)
    assert engine.generate("the one at fault", SHORT).finish_reason == "length"
    assert_idle(engine)


@pytest.mark.parametrize(
    ("raised", "expected"), [(MemoryError("no room"), OutOfMemoryError), (ValueError(), ValueError)]
)
def test_blocks_that_cannot_be_copied_end_the_step_and_nothing_is_read_from_them(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, raised: Exception, expected: type[Exception]
) -> None:
    def fail(copies: Any) -> None:
        if copies:
            raise raised

    prompt = "a context that is forked within a block"
    with engine.session() as session:
        session.append(prompt)
        session.generate(SHORT)
        expected_ids = engine.generate(session.token_ids, SHORT).token_ids
        with session.fork() as fork:
            with monkeypatch.context() as patch:
                patch.setattr(engine._loop._runner, "copy_blocks", fail)  # pyright: ignore[reportPrivateUsage]
                with pytest.raises(expected):
                    fork.generate(SHORT)
            assert fork.num_cached_tokens == 0
            assert_idle(engine)
            assert fork.generate(SHORT).token_ids == expected_ids
        assert session.generate(SHORT).token_ids == expected_ids
    assert_idle(engine)


VERBS = (
    "fill_bitmask",
    "check_token",
    "accept_token",
    "accept_tokens",
    "rollback",
    "forced_tokens",
    "fork",
    "is_terminated",
)


@pytest.mark.parametrize("verb", VERBS)
def test_a_constraint_that_raises_ends_its_own_request_only(
    engine: Engine, finite_constraint: FiniteConstraintMaker, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    words = {b"ababababab" * 9 + bytes([end]) for end in b"xyz"}
    constraint = finite_constraint(words)
    state: Any = type(constraint.compile(engine.vocabulary).new_state())  # pyright: ignore[reportArgumentType]
    method: Any = getattr(state, verb)

    def broken(self: Any, *arguments: Any) -> Any:
        if len(self.accepted) > 20:
            raise RuntimeError(f"broken {verb}")
        return method.__get__(self) if isinstance(method, property) else method(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(state, verb, property(broken) if isinstance(method, property) else broken)
        are_right, error = beside_neighbors(engine, "abababababababab", SamplingParams(max_tokens=99), constraint)
    assert str(error) == f"broken {verb}"
    assert are_right == [True] * len(NEIGHBORS)
    assert_idle(engine)


def test_a_reader_that_raises_ends_its_own_request_only(engine: Engine) -> None:
    def raise_always(delta: object) -> None:
        raise RuntimeError("nobody is at home")

    request = engine.new_request(CachedSequence(engine.encode("abc")), SHORT, None, owns_sequence=True)
    request.deliver = raise_always
    engine.loop.submit(request)
    are_right, error = beside_neighbors(engine, "abc", SHORT)
    assert (are_right, error) == ([True] * len(NEIGHBORS), None)
    assert not engine.loop.holds(request)
    assert_idle(engine)


def test_a_request_that_many_threads_end_at_once_ends_once(engine: Engine) -> None:
    requests: list[Request] = []
    for verb in (engine.loop.abort, engine.loop.cancel):
        request = engine.new_request(CachedSequence(engine.encode("abc")), LONG, None, owns_sequence=True)
        engine.loop.submit(request)
        threads = [threading.Thread(target=verb, args=(request,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        requests.append(request)
    for request in requests:
        outputs = [delta.output for delta in request.deltas() if delta.output is not None]
        assert [output.finish_reason for output in outputs] == ["abort"]
    assert_idle(engine)


def test_closing_during_work_fails_every_reader_and_returns(tiny_folder: Path) -> None:
    engine = Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.004, max_running_requests=4)
    streams = [engine.stream("abc" * index, LONG) for index in range(1, 9)]
    next(streams[0])
    closing = [threading.Thread(target=engine.close) for _ in range(3)]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join(30)
        assert not thread.is_alive()
    for stream in streams:
        with pytest.raises(RequestAbortedError, match="closed"):
            stream.read_output()
    with pytest.raises(RequestAbortedError, match="closed"):
        engine.stream("abc")
