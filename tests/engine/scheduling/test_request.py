"""A request ends at a stop, an end-of-sequence token, the end of its constraint, its budget, an abort or an error."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from sureact.constraints.constraint import Constraint
from sureact.drafts.drafter import Drafter
from sureact.errors import ConstraintStateError
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.outputs import StepLogprobs, StepOutput, TokenLogprob
from sureact.sampling_params import SamplingParams
from sureact.scheduling.request import Request
from sureact.tokens.vocabulary import Vocabulary

EOS = 3
VOCABULARY = Vocabulary(
    token_bytes=(b"a", b"b", b"c", b""),
    control_ids=frozenset({EOS}),
    unused_ids=frozenset(),
    eos_ids=(EOS,),
    tokenizer_json=None,
    fingerprint="test",
)


def finished(token_ids: list[int], **settings: Any) -> StepOutput:
    """Feed tokens until the request is done; return its output."""
    request = Request(CachedSequence([0, 1]), SamplingParams(**settings), VOCABULARY, str.encode)
    for token_id in token_ids:
        request.accept(token_id, None)
        if request.is_done:
            break
    request.retire()
    output = list(request.deltas())[-1].output
    assert output is not None
    return output


def test_an_end_of_sequence_token_ends_the_text_and_does_not_stay() -> None:
    output = finished([0, 1, EOS, 2])
    assert (output.text, output.token_ids, output.finish_reason, output.stop_reason) == ("ab", (0, 1), "stop", EOS)
    assert output.usage.completion_tokens == 3


def test_it_stays_when_stops_do() -> None:
    assert finished([0, EOS], include_stop=True).token_ids == (0, EOS)


def test_it_is_a_token_like_others_when_ignored() -> None:
    assert finished([0, EOS, 1], ignore_eos=True, max_tokens=3).token_ids == (0, EOS, 1)


def test_a_text_stop_is_named_as_the_reason() -> None:
    output = finished([0, 1, 2], stop=["bc", "zz"])
    assert (output.text, output.stop_reason) == ("a", "bc")


def test_the_budget_ends_a_text_with_its_own_reason() -> None:
    output = finished([0, 1, 2], max_tokens=2)
    assert (output.text, output.finish_reason, output.stop_reason) == ("ab", "length", None)


def test_a_stop_in_the_last_token_of_the_budget_is_a_stop() -> None:
    assert finished([0, 1], max_tokens=2, stop="b").finish_reason == "stop"


def test_an_abort_keeps_what_came() -> None:
    request = Request(CachedSequence([0]), SamplingParams(), VOCABULARY, str.encode)
    request.accept(1, None)
    request.abort()
    request.retire()
    *_, last = request.deltas()
    assert last.output is not None
    assert (last.output.text, last.output.finish_reason) == ("b", "abort")


def test_an_error_reaches_the_reader_after_the_text_before_it() -> None:
    request = Request(CachedSequence([0]), SamplingParams(), VOCABULARY, str.encode)
    request.accept(1, None)
    request.fail(ConstraintStateError("no token is legal"))
    request.retire()
    deltas = request.deltas()
    assert next(deltas).text == "b"
    with pytest.raises(ConstraintStateError, match="no token"):
        next(deltas)


def test_the_prompt_is_never_scanned_for_stops() -> None:
    request = Request(CachedSequence([1, 2]), SamplingParams(stop="bc"), VOCABULARY, str.encode)
    request.accept(0, None)
    assert not request.is_done


FiniteConstraintMaker = Callable[..., Constraint]


def constrained(constraint: Constraint, **settings: Any) -> Request:
    state = constraint.compile(VOCABULARY).new_state()
    params = SamplingParams(**settings)
    request = Request(CachedSequence([0, 1]), params, VOCABULARY, str.encode, state, max_rollbacks=2)
    request.sequence.num_cached = 2
    return request


def accept(request: Request, token_id: int) -> None:
    """What a step does: the token before is cached by now."""
    request.sequence.num_cached = len(request.sequence)
    request.accept(token_id, StepLogprobs(TokenLogprob(token_id, 0.0), ()))


def test_taking_back_undoes_a_token_everywhere_and_computes_the_one_before_again(
    finite_constraint: FiniteConstraintMaker,
) -> None:
    request = constrained(finite_constraint({b"cc"}, {b"ab", b"cc"}), logprobs=0)
    accept(request, 0)
    request.sequence.num_cached = 3
    request.take_back()
    assert (request.sequence.token_ids, request.sequence.num_cached) == ([0, 1], 1)
    assert request.generated_ids == []
    accept(request, 2)
    accept(request, 2)
    request.retire()
    deltas = list(request.deltas())
    output = deltas[-1].output
    assert output is not None
    assert "".join(delta.text for delta in deltas) == output.text == "cc"
    assert sum((delta.token_ids for delta in deltas), ()) == output.token_ids == (2, 2)
    assert [step.picked.token_id for step in output.logprobs or ()] == [2, 2]
    assert output.usage.completion_tokens == 2
    assert (request.refusals.dead_ends, request.refusals.rollbacks) == (1, 1)


def test_no_more_is_taken_back_than_allowed(finite_constraint: FiniteConstraintMaker) -> None:
    request = constrained(finite_constraint({b"cc"}, {b"aaaa"}))
    for token_id in (0, 0, 0):
        accept(request, token_id)
    request.take_back()
    request.take_back()
    with pytest.raises(ConstraintStateError, match="2 tokens were taken back, and max_rollbacks is 2"):
        request.take_back()
    assert request.refusals.is_budget_exhausted


def test_the_prompt_is_not_taken_back(finite_constraint: FiniteConstraintMaker) -> None:
    with pytest.raises(ConstraintStateError, match="every token that can begin the text"):
        constrained(finite_constraint({b"cc"})).take_back()


def test_what_was_shown_is_not_taken_back(finite_constraint: FiniteConstraintMaker) -> None:
    request = constrained(finite_constraint({b"cc"}))
    accept(request, 2)
    with pytest.raises(ConstraintStateError, match="was shown"):
        request.take_back()


def test_an_aborted_stream_gives_each_token_once() -> None:
    request = Request(CachedSequence([0]), SamplingParams(), VOCABULARY, str.encode)
    request.accept(1, None)
    request.accept(0, None)
    request.abort()
    request.retire()
    assert sum((delta.token_ids for delta in request.deltas()), ()) == (1, 0)


def test_the_tokens_that_the_constraint_forced_are_marked(finite_constraint: FiniteConstraintMaker) -> None:
    request = constrained(finite_constraint({b"abcb", b"abb"}, forces_text=True))
    request.drafter = cast(Drafter, object())
    request.begin()
    accept(request, 2)
    request.retire()
    *_, last = request.deltas()
    assert last.output is not None
    assert (last.output.text, last.output.forced_indices) == ("abcb", (0, 1, 3))
