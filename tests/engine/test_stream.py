import threading
from dataclasses import dataclass
from typing import Any

import pytest

from sureact.constraints.choice import choice
from sureact.constraints.constraint import CompiledConstraint, Constraint
from sureact.engine import Engine
from sureact.errors import InternalError, RequestAbortedError
from sureact.sampling_params import SamplingParams
from sureact.tokens.vocabulary import Vocabulary

LONG = SamplingParams(max_tokens=400, ignore_eos=True)


def test_a_closed_stream_ends_and_may_be_closed_again(tiny_engine: Engine) -> None:
    stream = tiny_engine.stream("abc", LONG)
    next(stream)
    stream.close()
    stream.close()
    with pytest.raises(StopIteration):
        next(stream)
    with pytest.raises(RequestAbortedError, match="closed before"):
        stream.read_output()


def test_leaving_the_block_cancels(tiny_engine: Engine) -> None:
    used = tiny_engine.stats().kv_blocks_used
    with tiny_engine.stream("abc", LONG) as stream:
        next(stream)
    assert tiny_engine.stats().kv_blocks_used == used


def test_the_last_delta_carries_the_whole_text(tiny_engine: Engine) -> None:
    deltas = list(tiny_engine.stream("abc", SamplingParams(max_tokens=9, ignore_eos=True)))
    assert [delta.output is not None for delta in deltas] == [False] * 8 + [True]


def test_log_probabilities_come_with_the_ids_that_they_are_of(tiny_engine: Engine) -> None:
    deltas = list(tiny_engine.stream("abc", SamplingParams(max_tokens=9, ignore_eos=True, logprobs=1)))
    output = deltas[-1].output
    assert output is not None
    assert tuple(step for delta in deltas for step in delta.logprobs) == output.logprobs
    assert [step.picked.token_id for step in output.logprobs or ()] == [id_ for d in deltas for id_ in d.token_ids]


def test_a_generated_text_comes_with_its_value(tiny_engine: Engine) -> None:
    completion = tiny_engine.generate("abc", SamplingParams(max_tokens=40), bool).completions[0]
    assert completion.value is (completion.text == "true")
    with tiny_engine.session() as session:
        session.append("abc")
        assert session.generate(SamplingParams(max_tokens=40), choice(["left", "right"])).value in ("left", "right")


def test_a_text_that_is_cut_or_free_has_no_value(tiny_engine: Engine) -> None:
    assert (
        tiny_engine.generate("abc", SamplingParams(max_tokens=1), choice(["a long text"])).completions[0].value is None
    )
    assert tiny_engine.generate("abc", SamplingParams(max_tokens=2)).completions[0].value is None


@dataclass(frozen=True)
class Misjudged(Constraint):
    """Lets a text through that it refuses when it is complete."""

    inner: Constraint

    @property
    def cache_key(self) -> str:
        return "misjudged"

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        return self.inner.compile(vocabulary)

    def parse(self, text: str) -> object:
        raise InternalError(f"{text} was let through")


def test_a_text_that_only_the_last_judge_refuses_is_counted_and_raised(tiny_engine: Engine) -> None:
    before = tiny_engine.stats().num_late_refusals
    with pytest.raises(InternalError, match="left was let through"):
        tiny_engine.generate("abc", SamplingParams(max_tokens=40), Misjudged(choice(["left"])))
    assert tiny_engine.stats().num_late_refusals == before + 1


def test_a_forgotten_session_gives_its_blocks_back(tiny_engine: Engine) -> None:
    cache = tiny_engine._cache  # pyright: ignore[reportPrivateUsage]
    before = len(cache._sequences)  # pyright: ignore[reportPrivateUsage]
    for _ in range(20):
        session = tiny_engine.session()
        session.append("abc")
        session.generate(SamplingParams(max_tokens=2))
        del session
    tiny_engine.generate("abc", SamplingParams(max_tokens=1))
    assert len(cache._sequences) <= before + 1  # pyright: ignore[reportPrivateUsage]


def test_a_forgotten_sessions_stream_is_read_to_its_end(tiny_engine: Engine) -> None:
    session = tiny_engine.session()
    session.append("abc")
    stream = session.stream(SamplingParams(max_tokens=20, ignore_eos=True))
    del session
    tiny_engine.generate("xyz", SamplingParams(max_tokens=1))
    assert stream.read_output().usage.completion_tokens == 20


def test_a_stream_collected_on_the_engines_own_thread_does_not_block_it(
    tiny_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = tiny_engine.stream("abc", LONG)
    next(stream)
    loop = tiny_engine._loop  # pyright: ignore[reportPrivateUsage]
    run = loop._runner.run  # pyright: ignore
    closed = threading.Event()

    def run_and_collect(batch: Any, fill_masks: Any) -> Any:
        if not closed.is_set():
            stream.close()  # what the collector would do, on this thread
            closed.set()
        return run(batch, fill_masks)

    with monkeypatch.context() as patch:
        patch.setattr(loop._runner, "run", run_and_collect)  # pyright: ignore[reportPrivateUsage]
        assert closed.wait(10)
        assert tiny_engine.generate("abc", SamplingParams(max_tokens=3, ignore_eos=True)).finish_reason == "length"
    assert (tiny_engine.stats().num_running, tiny_engine.stats().num_waiting) == (0, 0)
