"""Drafts are as long as they pay, stop when they do not, and are tried again now and then."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.drafts.draft_policy import INT4_COSTS, INT8_COSTS, DraftPolicy, PassCosts

RECORDS = st.lists(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), max_size=30)


def after(num_accepted: int, num_drafted: int = 4, *, max_len: int = 8, costs: PassCosts = INT8_COSTS) -> DraftPolicy:
    """A policy that saw many drafts end the same way."""
    policy = DraftPolicy(max_len, costs=costs)
    for _ in range(50):
        policy.record(num_drafted, num_accepted)
    return policy


def test_a_new_request_alone_drafts() -> None:
    assert DraftPolicy(3).draft_len(1, 1) == 3


def test_no_drafts_are_made_where_none_are_allowed() -> None:
    policy = DraftPolicy(0)
    assert [policy.draft_len(1, 1) for _ in range(100)] == [0] * 100


def test_what_is_always_accepted_is_drafted_at_full_length() -> None:
    assert after(4).draft_len(1, 1) == 8


def test_what_is_never_accepted_is_not_drafted() -> None:
    assert after(0).draft_len(1, 1) == 0


def test_drafts_get_shorter_as_more_requests_share_the_pass() -> None:
    lengths = [after(2).draft_len(1, num_requests) for num_requests in (1, 2, 4, 8, 16)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_rows_that_the_pass_has_anyway_make_a_draft_dearer_and_shorter() -> None:
    rising: PassCosts = ((1, 1.0), (4, 1.1), (8, 1.4), (32, 6.0))
    lengths = [after(1, costs=rising).draft_len(num_pending, 1) for num_pending in (1, 4, 8, 16)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_a_row_more_is_not_drafted_where_it_starts_another_group_of_rows() -> None:
    in_fours: PassCosts = ((1, 1.0), (4, 1.3), (5, 1.95), (8, 1.95))
    assert after(2, costs=in_fours).draft_len(1, 1) == 3
    assert after(2, costs=INT8_COSTS).draft_len(1, 1) > 3


def test_drafts_that_do_not_pay_are_tried_again_now_and_then() -> None:
    policy = after(0)
    lengths = [policy.draft_len(1, 1) for _ in range(18)]
    assert lengths == [0] * 16 + [1, 1], "a probe is asked for until the text offers a draft"
    policy.record(1, 0)
    assert policy.draft_len(1, 1) == 0


def test_probes_that_are_accepted_turn_drafts_on_again() -> None:
    policy = after(0)
    num_passes = 0
    while policy.draft_len(1, 1) < 4:
        num_passes += 1
        if policy.draft_len(1, 1):
            policy.record(1, 1)
    assert num_passes < 40


def test_a_pass_without_a_draft_teaches_nothing() -> None:
    policy, same = after(1), after(1)
    policy.record(0, 0)
    assert policy.draft_len(1, 4) == same.draft_len(1, 4)


@given(RECORDS, st.integers(0, 8), st.integers(1, 40), st.integers(1, 64))
def test_a_draft_is_never_longer_than_allowed_and_the_same_each_time(
    records: list[tuple[int, int]], max_len: int, num_pending: int, num_requests: int
) -> None:
    lengths: list[list[int]] = []
    for _ in range(2):
        policy = DraftPolicy(max_len)
        lengths.append([])
        for num_drafted, num_accepted in records:
            policy.record(num_drafted, num_accepted)
            lengths[-1].append(policy.draft_len(num_pending, num_requests))
    assert lengths[0] == lengths[1]
    assert all(0 <= length <= max_len for length in lengths[0])


@pytest.mark.parametrize("costs", [INT8_COSTS, INT4_COSTS])
def test_costs_rise_with_rows(costs: PassCosts) -> None:
    rows, times = zip(*costs, strict=True)
    assert list(rows) == sorted(set(rows))
    assert list(times) == sorted(times)


@given(RECORDS, st.integers(0, 32), st.integers(1, 40), st.integers(1, 64))
def test_a_draft_saves_as_much_as_any_other_length(
    records: list[tuple[int, int]], max_len: int, num_pending: int, num_requests: int
) -> None:
    policy = DraftPolicy(max_len)
    for num_drafted, num_accepted in records:
        policy.record(num_drafted, num_accepted)
    rate = policy._num_accepted / policy._num_judged  # pyright: ignore[reportPrivateUsage]
    cost = policy._pass_cost  # pyright: ignore[reportPrivateUsage]
    rows = num_pending * num_requests
    saved = [
        sum(rate**i for i in range(1, length + 1)) * cost(num_requests) - cost(rows + num_requests * length)
        for length in range(max_len + 1)
    ]
    assert saved[policy.draft_len(num_pending, num_requests)] == pytest.approx(max(saved))
