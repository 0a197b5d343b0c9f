from typing import Any

import torch

from sureact.execution.sampler import PickedToken, Sampler
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.sampling_params import SamplingParams
from sureact.scheduling.request import Request
from sureact.tokens.vocabulary import Vocabulary

VOCABULARY = Vocabulary(
    token_bytes=(b"a", b"b", b"c", b"", b""),
    control_ids=frozenset({3}),
    unused_ids=frozenset({4}),
    eos_ids=(3,),
    tokenizer_json=None,
    fingerprint="test",
)


def request_with(prompt: list[int] | None = None, **settings: Any) -> Request:
    params = SamplingParams(**settings)
    return Request(CachedSequence(prompt or [0]), params, VOCABULARY, str.encode)


def pick(logits: list[float], request: Request) -> PickedToken:
    (picked,) = Sampler(VOCABULARY, max_rows=2).pick(torch.tensor([logits]), [request])
    assert isinstance(picked, PickedToken)
    return picked


def test_the_likeliest_token_is_taken_but_never_an_unused_row() -> None:
    assert pick([1.0, 2.0, 0.0, 0.0, 9.0], request_with()).token_id == 1


def test_the_end_is_masked_until_min_tokens() -> None:
    logits = [1.0, 2.0, 0.0, 5.0, 0.0]
    assert pick(logits, request_with()).token_id == 3
    assert pick(logits, request_with(min_tokens=1)).token_id == 1


def test_a_repetition_penalty_divides_positive_and_multiplies_negative_logits_of_seen_tokens() -> None:
    request = request_with([0, 1])
    request.repetition_penalty = 2.0
    assert pick([3.0, -1.0, 1.6, 0.0, 0.0], request).token_id == 2
    assert pick([3.0, -1.0, 1.4, 0.0, 0.0], request).token_id == 0


def test_presence_counts_once_and_frequency_counts_each_time() -> None:
    for penalty, expected in (("presence_penalty", 0), ("frequency_penalty", 1)):
        settings: dict[str, Any] = {penalty: 1.0}
        request = request_with(max_tokens=9, **settings)
        request.accept(0, None)
        request.accept(0, None)
        assert pick([3.0, 1.5, 0.0, 0.0, 0.0], request).token_id == expected


def test_an_error_stands_in_the_place_of_its_own_row() -> None:
    logits = torch.tensor([[float("nan")] * 5, [0.0, 1.0, 0.0, 0.0, 0.0]])
    broken, fine = Sampler(VOCABULARY, max_rows=2).pick(logits, [request_with(), request_with()])
    assert isinstance(broken, Exception)
    assert fine == PickedToken(1, None)


def test_logprobs_are_taken_before_the_mask() -> None:
    picked = pick([1.0, 2.0, 0.0, 0.0, 9.0], request_with(logprobs=1))
    assert picked.logprobs is not None
    assert picked.logprobs.top[0].token_id == 4
    assert picked.logprobs.picked.token_id == 1
