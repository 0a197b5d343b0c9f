"""Counts add up over steps and requests; rates are 0 where nothing was counted."""

from sureact.execution.engine_stats import EngineStats
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.sampling_params import SamplingParams
from sureact.scheduling.batch import Batch, ScheduledRequest
from sureact.scheduling.request import Request
from sureact.tokens.vocabulary import Vocabulary

VOCABULARY = Vocabulary(
    token_bytes=(b"a",),
    control_ids=frozenset(),
    unused_ids=frozenset(),
    eos_ids=(),
    tokenizer_json=None,
    fingerprint="test",
)


def request_of(num_prompt_tokens: int, num_generated: int = 0) -> Request:
    request = Request(CachedSequence([0] * num_prompt_tokens), SamplingParams(), VOCABULARY, str.encode)
    request.sequence.token_ids += [0] * num_generated
    return request


PROMPT = ScheduledRequest(request_of(30), 0, 30)
DECODING = ScheduledRequest(request_of(5, num_generated=1), 5, 1)
WITH_DRAFT = ScheduledRequest(request_of(5, num_generated=1), 5, 1, draft=(0, 0, 0))


def test_a_step_of_decoding_counts_what_was_gained_and_no_draft_row() -> None:
    stats = EngineStats().with_step(Batch((DECODING, WITH_DRAFT)), 0.5, 4)
    assert (stats.num_steps, stats.num_decode_steps) == (1, 1)
    assert (stats.prefill_tokens, stats.decode_tokens) == (0, 4)
    assert (stats.prefill_s, stats.decode_s) == (0.0, 0.5)
    assert stats.decode_tokens_per_s == 8


def test_a_step_of_both_kinds_is_no_step_of_decoding() -> None:
    stats = EngineStats().with_step(Batch((PROMPT, DECODING)), 3.1, 1)
    assert (stats.num_steps, stats.num_decode_steps) == (1, 0)
    assert (stats.prefill_tokens, stats.decode_tokens) == (30, 0)
    assert (stats.prefill_s, stats.decode_s) == (3.1, 0)


def test_steps_add_up() -> None:
    stats = EngineStats(weight_bytes_per_token=10**9)
    for _ in range(3):
        stats = stats.with_step(Batch((DECODING,)), 0.5, 1)
    stats = stats.with_step(Batch((PROMPT,)), 2.0, 0)
    assert (stats.num_steps, stats.decode_tokens, stats.prefill_tokens) == (4, 3, 30)
    assert stats.prefill_tokens_per_s == 15
    assert stats.decode_gb_per_s == 2


def test_a_request_that_ended_adds_what_it_counted() -> None:
    request = request_of(5)
    request.num_cached_at_start = 3
    request.guesses.forced, request.guesses.drafted, request.guesses.accepted = 7, 4, 1
    request.refusals.vetoes, request.refusals.dead_ends, request.refusals.rollbacks = 6, 5, 2
    request.refusals.is_budget_exhausted = True
    request.seconds.mask = 0.25
    request.num_accepted = 9
    stats = EngineStats().with_request(request).with_request(request)
    assert (stats.num_requests, stats.cached_tokens, stats.forced_tokens) == (2, 6, 14)
    assert (stats.draft_tokens, stats.accepted_draft_tokens, stats.draft_acceptance) == (8, 2, 0.25)
    assert (stats.num_vetoes, stats.num_dead_ends, stats.num_rollbacks, stats.num_budget_exhausted) == (12, 10, 4, 2)
    assert stats.mask_s == 0.5
    assert stats.generated_tokens == 18


def test_a_request_that_never_ran_had_nothing_cached() -> None:
    assert EngineStats().with_request(request_of(5)).cached_tokens == 0


def test_rates_of_nothing_are_zero() -> None:
    stats = EngineStats()
    assert stats.decode_tokens_per_s == stats.prefill_tokens_per_s == stats.decode_gb_per_s == 0
    assert stats.draft_acceptance == 0
