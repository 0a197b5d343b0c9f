"""Two contenders on the same cases: how far apart they are, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_Z = 1.959963984540054
"""Of a two-sided interval of 95 percent."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The difference of two accuracies on the same cases."""

    n: int
    only_first: int
    """Cases that only the first got right."""
    only_second: int
    difference: float
    """Accuracy of the first less that of the second, from -1 to 1."""
    low: float
    high: float
    """An interval of 95 percent around it."""
    p_value: float
    """Of McNemar's exact test: how likely a split at least as uneven is if neither is better."""

    def as_dict(self) -> dict[str, object]:
        """Return what the command writes."""
        return {
            "n": self.n,
            "only_sureact": self.only_first,
            "only_peer": self.only_second,
            "difference": round(self.difference, 6),
            "interval_95": [round(self.low, 6), round(self.high, 6)],
            "p_value": round(self.p_value, 6),
            "method": "Agresti-Min interval of the paired difference; McNemar's exact test",
        }


def paired_difference(first: Sequence[bool], second: Sequence[bool]) -> PairedDifference:
    """Compare who was right, case by case.

    The interval is that of Agresti and Min: Wald's for paired proportions, after half a case is added to each of the
    four cells, which keeps it honest for few cases and few disagreements.

    Args:
        first: of each case, whether it was right.
        second: of the same cases in the same order.

    Source: Agresti and Min 2005, "Simple improved confidence intervals for comparing matched proportions".
    """
    pairs = list(zip(first, second, strict=True))
    only_first = sum(a and not b for a, b in pairs)
    only_second = sum(b and not a for a, b in pairs)
    n = len(pairs)
    padded_n, gained, lost = n + 2, only_first + 0.5, only_second + 0.5
    center = (gained - lost) / padded_n
    spread = _Z * math.sqrt(gained + lost - (gained - lost) ** 2 / padded_n) / padded_n
    return PairedDifference(
        n=n,
        only_first=only_first,
        only_second=only_second,
        difference=(only_first - only_second) / n if n else 0.0,
        low=max(-1.0, center - spread),
        high=min(1.0, center + spread),
        p_value=_mcnemar(only_first, only_second),
    )


def _mcnemar(only_first: int, only_second: int) -> float:
    """Return the two-sided probability of a fair coin falling this unevenly on the cases that the two split."""
    tosses, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(math.comb(tosses, k) for k in range(fewer + 1))
    # As whole numbers: 2 ** tosses does not fit into a float for long.
    return min(1.0, 2 * tail / 2**tosses)
