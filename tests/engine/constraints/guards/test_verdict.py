"""Three-valued logic, tested as what it stands for: what holds under every way the open ones can turn out."""

from collections.abc import Callable, Iterable, Iterator
from itertools import product

import pytest

from sureact.constraints.guards.verdict import Verdict, all_of, any_of, negated, one_of

TWO_VALUED: dict[Callable[[Iterable[Verdict]], Verdict], Callable[[tuple[bool, ...]], bool]] = {
    all_of: all,
    any_of: any,
    one_of: lambda values: sum(values) == 1,
}


def outcomes(verdicts: tuple[Verdict, ...]) -> Iterator[tuple[bool, ...]]:
    return product(*([True, False] if verdict is None else [verdict] for verdict in verdicts))


@pytest.mark.parametrize("combined", TWO_VALUED)
@pytest.mark.parametrize("num_verdicts", range(5))
def test_a_verdict_is_what_all_outcomes_agree_on(
    combined: Callable[[Iterable[Verdict]], Verdict], num_verdicts: int
) -> None:
    for verdicts in product((True, False, None), repeat=num_verdicts):
        results = {TWO_VALUED[combined](values) for values in outcomes(verdicts)}
        assert combined(verdicts) is (results.pop() if len(results) == 1 else None), verdicts


def test_what_is_open_is_open_when_negated() -> None:
    assert [negated(verdict) for verdict in (True, False, None)] == [False, True, None]
