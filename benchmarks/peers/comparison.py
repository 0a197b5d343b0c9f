"""Ours and theirs taking turns, and the figures of a row."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from benchmarks.peers.work import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.peers.work import Work

Unit = Literal["tokens/s", "s", "s/token"]
"""A ratio above 1 is good for us in the first two; of `s/token` it is what ours costs."""


class Worker(Protocol):
    """Has work done."""

    def do(self, work: Work) -> Outcome:
        """Do it and say what it took."""
        ...


@dataclass(frozen=True, slots=True)
class Pair:
    """Works of two sides that are compared as wholes; the n-th of both are done right after one another."""

    ours: Sequence[Work]
    theirs: Sequence[Work]


@dataclass(slots=True)
class Side:
    """What one side did in all pairs."""

    values: list[float] = field(default_factory=list[float])
    """One per pair, in the unit of the row."""
    num_tokens: int = 0
    num_unfinished: int = 0
    num_refused: int = 0
    seconds_of: Counter[str] = field(default_factory=Counter[str])
    first_refusal: str | None = None

    def add(self, outcomes: list[Outcome], unit: Unit) -> None:
        """Count a pair's outcomes, at least one."""
        seconds, num_tokens = sum(o.seconds for o in outcomes), sum(o.num_tokens for o in outcomes)
        self.values.append({"s": seconds, "tokens/s": num_tokens / seconds, "s/token": seconds / num_tokens}[unit])
        self.num_tokens += num_tokens
        self.num_unfinished += sum(outcome.num_unfinished for outcome in outcomes)
        for outcome in outcomes:
            self.seconds_of.update(outcome.seconds_of)

    def count_refusal(self, outcome: Outcome | None) -> bool:
        """Tell whether a work was refused, and count it."""
        if outcome is None or outcome.refusal is None:
            return False
        self.num_refused += 1
        self.first_refusal = self.first_refusal or outcome.refusal
        return True

    @property
    def figures(self) -> dict[str, object]:
        """Everything but the values."""
        return {
            "tokens": self.num_tokens,
            "unfinished": self.num_unfinished,
            "refused": self.num_refused,
            "first_refusal": self.first_refusal,
            "seconds_of": {name: round(seconds, 3) for name, seconds in self.seconds_of.items()},
        }


def compare(ours: Worker, theirs: Worker | None, pairs: Iterable[Pair], unit: Unit) -> dict[str, object]:
    """Measure pairs of works and return medians; `ratio` is the median of the pairs' ratios.

    A work that either side refuses is left out on both sides.

    Args:
        ours: our engine.
        theirs: a peer, or our engine again; None where the peer is missing.
        pairs: the first only warms both up.
        unit: of the figures.
    """
    sides = Side(), Side()
    for index, pair in enumerate(pairs):
        measured = (Side(), Side()) if index == 0 else sides
        done = [
            _done(ours, theirs, our_work, their_work, theirs_first=bool((index + turn) % 2))
            for turn, (our_work, their_work) in enumerate(zip(pair.ours, pair.theirs, strict=True))
        ]
        refused = [[side.count_refusal(outcome) for side, outcome in zip(measured, both, strict=True)] for both in done]
        kept = [both for both, refusals in zip(done, refused, strict=True) if not any(refusals)]
        for side, outcomes in zip(measured, zip(*kept, strict=True), strict=False):
            if outcomes[0] is not None:
                side.add([outcome for outcome in outcomes if outcome is not None], unit)
    return _figures(*sides, unit)


def _done(
    ours: Worker, theirs: Worker | None, our_work: Work, their_work: Work, *, theirs_first: bool
) -> tuple[Outcome, Outcome | None]:
    if theirs is None:
        return ours.do(our_work), None
    if theirs_first:
        their_outcome = theirs.do(their_work)
        return ours.do(our_work), their_outcome
    return ours.do(our_work), theirs.do(their_work)


def _figures(ours: Side, theirs: Side, unit: Unit) -> dict[str, object]:
    pairs = zip(ours.values, theirs.values, strict=False)
    ratios = [our / their if unit != "s" else their / our for our, their in pairs]
    return {
        "ours": _median(ours.values),
        "theirs": _median(theirs.values),
        "unit": unit,
        "ratio": _median(ratios),
        "ratios": ratios,
        "our_figures": ours.figures,
        "their_figures": theirs.figures if theirs.values or theirs.num_refused else None,
    }


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
