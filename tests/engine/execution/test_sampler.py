from typing import Any

import pytest
import torch

from sureact.constraints.constraint import ConstraintState
from sureact.constraints.token_bitmask import write_token_ids
from sureact.errors import ConstraintStateError
from sureact.execution.pass_output import PassOutput
from sureact.execution.sampler import MAX_VETOES, DeadEnd, PickedToken, Sampler
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.sampling_params import SamplingParams
from sureact.scheduling.batch import ScheduledRequest
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


class Guard(ConstraintState):
    """Offers some ids, refuses some of them, and remembers in which order it was asked."""

    def __init__(self, offered: list[int], refused: set[int]) -> None:
        self.offered, self.refused = offered, refused
        self.asked: list[int] = []

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> None:
        if not self.offered:
            raise ConstraintStateError("nothing is offered")
        write_token_ids(bitmask, row, self.offered)

    def check_token(self, token_id: int) -> bool:
        self.asked.append(token_id)
        return token_id not in self.refused

    def accept_token(self, token_id: int) -> None: ...

    def rollback(self, num_tokens: int) -> None: ...

    def forced_tokens(self) -> list[int]:
        return []

    def fork(self) -> ConstraintState:
        return self

    @property
    def is_accepting(self) -> bool:
        return False

    @property
    def is_terminated(self) -> bool:
        return False


def request_with(prompt: list[int] | None = None, **settings: Any) -> Request:
    params = SamplingParams(**settings)
    return Request(CachedSequence(prompt or [0]), params, VOCABULARY, str.encode)


def pick(logits: list[float], request: Request) -> PickedToken:
    (picked,) = pick_rows(torch.tensor([logits]), [request])
    assert isinstance(picked, PickedToken)
    return picked


def pick_rows(logits: torch.Tensor, requests: list[Request]) -> list[PickedToken | DeadEnd | Exception]:
    """Pick after each request's tokens; what is raised for one stands in its place."""
    sampler = Sampler(requests[0].vocabulary)
    sampler.fill_masks([ScheduledRequest(request, 0, len(request.sequence)) for request in requests])
    picked: list[PickedToken | DeadEnd | Exception] = []
    for row, request in enumerate(requests):
        try:
            picked.append(sampler.pick(PassOutput(logits[row : row + 1]), row, request))
        except Exception as error:
            picked.append(error)
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


def test_a_repetition_penalty_follows_a_text_that_grows_and_is_taken_back() -> None:
    request = request_with([0])
    request.repetition_penalty = 4.0
    sampler = Sampler(request.vocabulary)
    for token_ids, expected in (([0], 1), ([0, 1], 2), ([0], 1), ([0, 2, 1], 0), ([0, 2], 1)):
        request.sequence.token_ids[:] = token_ids
        sampler.fill_masks([ScheduledRequest(request, 0, len(token_ids))])
        picked = sampler.pick(PassOutput(torch.tensor([[6.0, 5.0, 4.0, 0.0, 0.0]])), 0, request)
        assert isinstance(picked, PickedToken)
        assert picked.token_id == expected


def test_presence_counts_once_and_frequency_counts_each_time() -> None:
    for penalty, expected in (("presence_penalty", 0), ("frequency_penalty", 1)):
        settings: dict[str, Any] = {penalty: 1.0}
        request = request_with(max_tokens=9, **settings)
        request.accept(0, None)
        request.accept(0, None)
        assert pick([3.0, 1.5, 0.0, 0.0, 0.0], request).token_id == expected


def test_an_error_stands_in_the_place_of_its_own_row() -> None:
    logits = torch.tensor([[float("nan")] * 5, [0.0, 1.0, 0.0, 0.0, 0.0]])
    broken, fine = pick_rows(logits, [request_with(), request_with()])
    assert isinstance(broken, Exception)
    assert fine == PickedToken(1, None)


def test_logprobs_are_taken_before_the_mask() -> None:
    picked = pick([1.0, 2.0, 0.0, 0.0, 9.0], request_with(logprobs=1))
    assert picked.logprobs is not None
    assert picked.logprobs.top[0].token_id == 4
    assert picked.logprobs.picked.token_id == 1


def guarded(guard: Guard, vocabulary: Vocabulary = VOCABULARY, **settings: Any) -> Request:
    return Request(CachedSequence([0]), SamplingParams(**settings), vocabulary, str.encode, guard)


def wide_vocabulary(num_logits: int) -> Vocabulary:
    return Vocabulary(
        token_bytes=(b"a",) * num_logits,
        control_ids=frozenset(),
        unused_ids=frozenset(),
        eos_ids=(0,),
        tokenizer_json=None,
        fingerprint="wide",
    )


def test_after_a_veto_the_next_likeliest_token_is_tried_and_of_equals_the_first() -> None:
    guard = Guard([0, 1, 2, 4], {4, 1, 0})
    request = guarded(guard)
    assert pick([2.0, 3.0, 2.0, 9.0, 5.0], request).token_id == 2
    assert guard.asked == [4, 1, 0, 2]
    assert request.refusals.vetoes == 3


def test_a_draw_that_is_vetoed_is_drawn_again_among_the_others() -> None:
    for seed in range(5):
        guard = Guard([0, 1, 2], {0, 2})
        assert pick([1.0, 1.0, 1.0, 9.0, 9.0], guarded(guard, temperature=1.0, seed=seed)).token_id == 1
        assert len(set(guard.asked)) == len(guard.asked)


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0, "seed": 1}])
def test_a_position_is_a_dead_end_when_every_token_is_refused(settings: dict[str, Any]) -> None:
    guard = Guard([0, 1, 2], {0, 1, 2})
    assert pick_rows(torch.zeros(1, 5), [guarded(guard, **settings)]) == [DeadEnd()]
    assert sorted(guard.asked) == [0, 1, 2]


def test_a_token_without_probability_is_not_tried_after_a_veto() -> None:
    guard = Guard([0, 1, 2], {0})
    logits = torch.tensor([[1.0, -torch.inf, -torch.inf, 0.0, 0.0]])
    assert pick_rows(logits, [guarded(guard)]) == [DeadEnd()]


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0, "seed": 1}])
def test_so_many_vetoes_at_one_position_count_as_a_dead_end(settings: dict[str, Any]) -> None:
    num_logits = MAX_VETOES + 100
    guard = Guard(list(range(num_logits)), set(range(num_logits)))
    vocabulary = wide_vocabulary(num_logits)
    request = guarded(guard, vocabulary, **settings)
    assert pick_rows(torch.zeros(1, num_logits), [request]) == [DeadEnd()]
    assert request.refusals.vetoes == MAX_VETOES
    assert len(set(guard.asked)) == MAX_VETOES


def test_a_mask_that_cannot_be_filled_ends_its_own_request_only() -> None:
    requests = [guarded(Guard([], set())), guarded(Guard([1], set()))]
    broken, fine = pick_rows(torch.zeros(2, 5), requests)
    assert isinstance(broken, ConstraintStateError)
    assert fine == PickedToken(1, None)


def test_a_dead_end_is_known_without_logits_where_few_tokens_are_offered() -> None:
    sampler = Sampler(VOCABULARY)
    assert sampler.is_dead_end(guarded(Guard([1], {1})))
    assert not sampler.is_dead_end(guarded(Guard([1, 2], {1})))
    vocabulary = wide_vocabulary(200)
    everything = set(range(200))
    assert not Sampler(vocabulary).is_dead_end(guarded(Guard(sorted(everything), everything), vocabulary))


def test_a_logits_processor_has_its_say_before_the_mask() -> None:
    seen: list[tuple[list[list[int]], list[list[float]]]] = []

    def prefer(ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        seen.append((ids.tolist(), logits.tolist()))
        return logits + torch.tensor([[0.0, 5.0, 0.0, 0.0, 99.0]])

    request = request_with([2, 0])
    request.logits_processor = prefer
    assert pick([1.0, 0.0, 2.0, 0.0, 0.0], request).token_id == 1
    assert seen == [([[2, 0]], [[1.0, 0.0, 2.0, 0.0, 0.0]])]


@pytest.mark.parametrize("left", [[], [3], [4]])
def test_a_logits_processor_that_leaves_nothing_to_pick_ends_its_own_request(left: list[int]) -> None:
    def only(ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        kept = torch.full_like(logits, -torch.inf)
        kept[:, left] = 1.0
        return kept

    request = request_with(min_tokens=1)  # so that the end, id 3, may not be picked
    request.logits_processor = only
    broken, fine = pick_rows(torch.zeros(2, 5), [request, request_with()])
    assert isinstance(broken, ConstraintStateError)
    assert isinstance(fine, PickedToken)


def test_what_the_device_found_likeliest_is_taken_without_logits() -> None:
    sampler, request = Sampler(VOCABULARY), request_with()
    sampler.fill_masks([ScheduledRequest(request, 0, len(request.sequence))])
    assert sampler.pick(PassOutput(None, (2,)), 0, request) == PickedToken(2, None)


def test_what_the_device_found_likeliest_is_not_taken_where_the_constraint_refuses_it() -> None:
    request = guarded(Guard([0, 1, 2], {2}))
    sampler = Sampler(VOCABULARY)
    sampler.fill_masks([ScheduledRequest(request, 0, len(request.sequence))])
    output = PassOutput(torch.tensor([[1.0, 2.0, 3.0, 9.0, 9.0]]), (2,))
    assert sampler.pick(output, 0, request) == PickedToken(1, None)
    assert request.refusals.vetoes == 1


@pytest.mark.parametrize(
    "settings",
    [{"temperature": 1.0, "top_k": 1}, {"frequency_penalty": 2.0}, {"presence_penalty": 2.0}, {"logprobs": 0}],
)
def test_what_the_device_found_likeliest_is_not_taken_where_more_than_the_mask_decides(
    settings: dict[str, Any],
) -> None:
    request = request_with([0], **settings)
    assert not request.takes_likeliest
    sampler = Sampler(VOCABULARY)
    sampler.fill_masks([ScheduledRequest(request, 0, len(request.sequence))])
    output = PassOutput(torch.tensor([[1.0, 2.0, 0.0, 0.0, 9.0]]), (0,))
    picked = sampler.pick(output, 0, request)
    assert isinstance(picked, PickedToken)
    assert picked.token_id == 1


def test_one_mask_holds_for_all_tokens_to_come_only_without_constraint_and_once_the_text_may_end() -> None:
    assert request_with().decodes_freely
    assert request_with(min_tokens=3, ignore_eos=True).decodes_freely
    assert not request_with(min_tokens=3).decodes_freely
    assert not guarded(Guard([1], set())).decodes_freely
    assert not request_with(logprobs=1).decodes_freely
