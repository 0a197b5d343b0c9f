"""Watches that a constrained text can still be ended within its tokens, and says when it must be.

Far from the end of the budget it looks three times, in case that what is begun takes long to end. Near the end it
looks at every position: a token after which the text could not be ended any more is refused, and when no more tokens
are left than the end takes, the text is ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sureact.constraints.closing_text import MAX_CLOSING_TOKENS, find_closing, is_end
from sureact.constraints.early_end import Closing
from sureact.constraints.repetition import CHECK_EVERY
from sureact.outputs import EarlyEnd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sureact.constraints.constraint import ConstraintState
    from sureact.constraints.json_outline import Outline
    from sureact.tokens.vocabulary import Vocabulary

_PROBED_AT = (256, 128, 64)
"""Tokens left at which the length of the end is looked at."""
_CLOSE = 48
"""Tokens left from which every token is judged."""
_SPARE = 4
"""Tokens kept between the end of the text and the end of the budget: what is forced may take a token more than the same
text takes in the closing."""


class ClosingBudget:
    """The tokens of one text."""

    def __init__(self, state: ConstraintState, vocabulary: Vocabulary, max_tokens: int) -> None:
        """Take the position, which is advanced and rolled back here, and the tokens the text may have."""
        self._state = state
        self._vocabulary = vocabulary
        self._max_tokens = max_tokens
        self._close_from: int | None = None
        """Tokens after which every token is judged, where that begins early."""
        self._given_up_at: int | None = None
        """Tokens after which no end was found that the rest has room for."""
        self._ends: dict[int, list[int]] = {}
        """What ends the text after so many tokens."""

    def is_close(self, num_tokens: int) -> bool:
        """Whether each token is judged after so many."""
        if self._given_up_at is not None:
            return False
        is_early = self._close_from is not None and num_tokens >= self._close_from
        return is_early or self._left_at_look(num_tokens) <= _CLOSE

    def closing_at(self, token_ids: Sequence[int], outline: Callable[[], Outline]) -> Closing | None:
        """Return what must come if the text is to be ended here; asked at every look, and wherever it is close."""
        num_tokens = len(token_ids)
        if self._given_up_at is not None or not (self.is_close(num_tokens) or self._is_probed(num_tokens)):
            return None
        left = self._max_tokens - num_tokens
        end = self._end_at(token_ids, left, outline)
        if end is None:
            self._given_up_at = num_tokens
            return None
        if 2 * len(end) > left and self._close_from is None:
            self._close_from = num_tokens
        if self.is_close(num_tokens) and len(end) >= left - _SPARE:
            return Closing(num_tokens, tuple(end), "end", -1, EarlyEnd("max_tokens", num_tokens, None))
        return None

    def is_affordable(self, num_tokens: int, token_id: int, outline: Callable[[], Outline]) -> bool:
        """Whether the text can still be ended after one more token."""
        if self._ends.get(num_tokens, [])[:1] == [token_id]:
            return True
        if token_id in self._vocabulary.eos_ids:
            return True
        # Where the text is forced, there is no other way, and the end goes this way too.
        if self._state.forced_tokens()[:1] == [token_id]:
            return True
        data = self._vocabulary.token_bytes[token_id]
        self._state.accept_token(token_id)
        try:
            left = self._max_tokens - num_tokens - 1
            end = self._end(num_tokens + 1, token_id, left, lambda: outline().read(data))
        finally:
            self._state.rollback(1)
        return end is not None

    def rollback(self, num_tokens: int) -> None:
        """Forget what was found after the first `num_tokens`."""
        if self._close_from is not None and self._close_from >= num_tokens:
            self._close_from = None
        if self._given_up_at is not None and self._given_up_at >= num_tokens:
            self._given_up_at = None
        self._ends = {index: end for index, end in self._ends.items() if index < num_tokens}

    def fork(self, state: ConstraintState) -> ClosingBudget:
        """Return a copy for a copy of the position."""
        copy = ClosingBudget(state, self._vocabulary, self._max_tokens)
        copy._close_from, copy._given_up_at, copy._ends = self._close_from, self._given_up_at, dict(self._ends)
        return copy

    def _left_at_look(self, num_tokens: int) -> int:
        """Return the tokens left at the last look: between two looks nothing is decided that was not decided there."""
        return self._max_tokens - num_tokens // CHECK_EVERY * CHECK_EVERY

    def _is_probed(self, num_tokens: int) -> bool:
        left = self._max_tokens - num_tokens
        if num_tokens == 0:
            return left <= _PROBED_AT[0]
        return any(left <= mark < left + CHECK_EVERY for mark in _PROBED_AT)

    def _end_at(self, token_ids: Sequence[int], left: int, outline: Callable[[], Outline]) -> list[int] | None:
        num_tokens = len(token_ids)
        end = self._end(num_tokens, token_ids[-1] if token_ids else -1, left, outline)
        if end is not None:
            self._ends[num_tokens] = end
        return end

    def _end(self, num_tokens: int, last_id: int, left: int, outline: Callable[[], Outline]) -> list[int] | None:
        """Return what ends the text from where the position stands, if it takes no more than `left` tokens.

        What ended it a token before mostly still does, and is tried first: a search takes a hundred times as long, and
        might go a longer way than the one that is being followed.
        """
        before = self._ends.get(num_tokens - 1)
        if before:
            end = before[1:] if before[0] == last_id else before
            if len(end) <= left and is_end(self._state, end):
                return end
        return find_closing(self._state, self._vocabulary, min(left, MAX_CLOSING_TOKENS), outline())
