from dataclasses import dataclass

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
