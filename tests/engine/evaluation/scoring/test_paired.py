"""The paired interval and test, against values that were worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.evaluation.scoring.paired import paired_difference

PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60)


def test_the_interval_is_that_of_agresti_and_min() -> None:
    first = [True] * 10 + [False] * 2 + [True] * 80 + [False] * 8
    second = [False] * 10 + [True] * 2 + [True] * 80 + [False] * 8
    result = paired_difference(first, second)
    assert (result.n, result.only_first, result.only_second) == (100, 10, 2)
    assert result.difference == pytest.approx(0.08)
    center, spread = 8 / 102, 1.959964 * math.sqrt(13 - 64 / 102) / 102
    assert (result.low, result.high) == pytest.approx((center - spread, center + spread), abs=1e-6)
    assert result.p_value == pytest.approx(2 * (1 + 12 + 66) / 2**12)


def test_nothing_compared_says_nothing() -> None:
    result = paired_difference([], [])
    assert (result.difference, result.p_value) == (0, 1)
    assert result.low <= 0 <= result.high


def test_thousands_of_disagreements_are_counted() -> None:
    assert paired_difference([True] * 5000, [False] * 5000).p_value == 0


@given(PAIRS)
def test_the_other_way_round_is_the_mirror_image(pairs: list[tuple[bool, bool]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    one, other = paired_difference(first, second), paired_difference(second, first)
    assert one.difference == pytest.approx(-other.difference)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert one.p_value == other.p_value
    assert 0 < one.p_value <= 1
    assert -1 <= one.low <= one.high <= 1


def test_the_counts_say_how_they_came_about() -> None:
    counts = paired_difference([True, False], [False, False]).as_dict()
    assert counts["only_sureact"] == 1
    assert counts["only_peer"] == 0
    assert counts["method"] == "Agresti-Min interval of the paired difference; McNemar's exact test"
