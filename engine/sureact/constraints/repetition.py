"""Finds text that repeats itself: the end of a list of token ids that is one unit, over and over."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_PERIOD = 64
"""Tokens of the longest unit: a line or a sentence that small models write again and again is shorter."""

MIN_REPEATS = 6
"""Units that must follow one another: four or five equal rows are a table."""

CHECK_EVERY = 8
"""Tokens between two looks, so that a look costs a token next to nothing. A power of two, fixed by position: what is
found must not depend on how the tokens came."""


class Repetition(NamedTuple):
    """The end of a text that repeats one unit."""

    period: int
    """Tokens of the unit."""
    start: int
    """Index of the first token of it all."""


def find_repetition(token_ids: Sequence[int], min_tokens: int) -> Repetition | None:
    """Return how the tokens end in a unit that is repeated, with the shortest such unit; None if they do not.

    The unit has up to `MAX_PERIOD` tokens and stands there at least `MIN_REPEATS` times, over at least `min_tokens`
    tokens; the first of them may be cut.
    """
    num_tokens = len(token_ids)
    last = token_ids[-1] if num_tokens else None
    for period in range(1, min(MAX_PERIOD, num_tokens - 1) + 1):
        # The last token alone tells most periods out.
        if token_ids[-1 - period] != last:
            continue
        length = max(min_tokens, MIN_REPEATS * period)
        if length <= num_tokens and token_ids[-(length - period) :] == token_ids[-length:-period]:
            return Repetition(period, _start_of(token_ids, period, num_tokens - length))
    return None


def _start_of(token_ids: Sequence[int], period: int, start: int) -> int:
    while start > 0 and token_ids[start - 1] == token_ids[start - 1 + period]:
        start -= 1
    return start


def repetition_now(token_ids: Sequence[int], min_tokens: int) -> Repetition | None:
    """Return what `find_repetition` does at every `CHECK_EVERY`th token, and None in between."""
    if len(token_ids) % CHECK_EVERY or len(token_ids) < min_tokens:
        return None
    return find_repetition(token_ids, min_tokens)
