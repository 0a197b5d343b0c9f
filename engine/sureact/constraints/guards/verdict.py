"""What can be said of a value that is not complete: valid whatever comes, invalid whatever comes, or open."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Verdict: TypeAlias = bool | None
"""True: valid whatever comes. False: invalid whatever comes. None: it depends on what comes.

A verdict that is not None never changes while the text grows.
"""


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """True when all are, False when one is."""
    result: Verdict = True
    for verdict in verdicts:
        if verdict is False:
            return False
        if verdict is None:
            result = None
    return result


def any_of(verdicts: Iterable[Verdict]) -> Verdict:
    """True when one is, False when all are."""
    result: Verdict = False
    for verdict in verdicts:
        if verdict:
            return True
        if verdict is None:
            result = None
    return result


def one_of(verdicts: Iterable[Verdict]) -> Verdict:
    """True when exactly one is and the others are False; False when two are True, or all are False."""
    num_true = num_open = 0
    for verdict in verdicts:
        num_true += verdict is True
        num_open += verdict is None
    if num_true > 1 or num_true + num_open == 0:
        return False
    return True if num_true == 1 and not num_open else None


def negated(verdict: Verdict) -> Verdict:
    """True for False, False for True."""
    return None if verdict is None else not verdict
