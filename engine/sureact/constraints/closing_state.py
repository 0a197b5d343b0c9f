"""A position in a constrained text that ends values which run on, and ends all of it before its tokens are spent.

It stands around any other position and only ever takes choices away, so what it writes is legal. What it decides
depends on the accepted tokens alone, not on whether they came one by one, as a draft, or as forced text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from sureact.constraints.closing_budget import ClosingBudget
from sureact.constraints.constraint import ConstraintState
from sureact.constraints.early_end import NO_LENGTHS, Closing, DeclaredLengths, end_of_value, find_runaway
from sureact.constraints.json_outline import Outline
from sureact.constraints.repetition import CHECK_EVERY
from sureact.constraints.token_bitmask import num_bitmask_words, write_token_ids
from sureact.errors import ConstraintStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sureact.outputs import EarlyEnd
    from sureact.sampling_params import RunawayLimits
    from sureact.tokens.vocabulary import Vocabulary

_NUMBER_BYTES = b"-+.eE0123456789"
_RETRY_AFTER = 64
"""Tokens after which the end of a value is looked for again when none was found."""
_START = Outline()


class ClosingState(ConstraintState):
    """A position in a text that is ended where it runs on."""

    def __init__(
        self,
        inner: ConstraintState,
        vocabulary: Vocabulary,
        *,
        max_tokens: int | None = None,
        limits: RunawayLimits | None = None,
        lengths: DeclaredLengths = NO_LENGTHS,
    ) -> None:
        """Stand around a position at the start of a text.

        Args:
            inner: the position; nobody else may use it.
            vocabulary: of the position.
            max_tokens: tokens within which the text is to be complete; None for no such end.
            limits: what is taken for running on; None for nothing.
            lengths: the largest that the schema names.
        """
        self._inner = inner
        self._vocabulary = vocabulary
        self._limits = limits
        self._lengths = lengths
        self._budget = None if max_tokens is None else ClosingBudget(inner, vocabulary, max_tokens)
        self._token_ids: list[int] = []
        self._outlines = [_START]  # before the first token, and after each CHECK_EVERY of them
        self._closings: list[Closing] = []
        self._unclosed: list[int] = []  # tokens before each position at which no end was found
        self._decided_at = -1

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> None:
        """Overwrite `bitmask[row]` with what may come here."""
        closing = self._closing()
        if closing is None:
            self._inner.fill_bitmask(bitmask, row)
            return
        forced = closing.forced_ids(len(self._token_ids))
        if forced:
            write_token_ids(bitmask, row, forced[:1])
        elif closing.ender == "end":
            write_token_ids(bitmask, row, self._vocabulary.eos_ids)
        else:
            self._inner.fill_bitmask(bitmask, row)
            bitmask[row] &= _ender_words(self._vocabulary, is_quote=closing.ender == "quote")
            word, bit = divmod(closing.next_id, 32)
            bitmask[row, word] |= (1 << bit) - (1 << 32 if bit == 31 else 0)

    def check_token(self, token_id: int) -> bool:
        """Whether `token_id` may come next."""
        closing = self._closing()
        if closing is not None:
            return self._is_in(closing, token_id)
        if not self._inner.check_token(token_id):
            return False
        return not self._is_budget_close or self._is_affordable(token_id)

    def accept_token(self, token_id: int) -> None:
        """Advance over `token_id`."""
        closing = self._closing()
        if closing is None and not self._is_budget_close:
            self._inner.accept_token(token_id)
        elif self.check_token(token_id):
            if closing is None or closing.ender != "end" or closing.forced_ids(len(self._token_ids)):
                self._inner.accept_token(token_id)
        else:
            raise ConstraintStateError(f"Token {token_id} is not legal here: the text is being ended.")
        self._token_ids.append(token_id)

    def accept_tokens(self, token_ids: Sequence[int]) -> int:
        """Advance over as many of `token_ids` as are legal."""
        count = 0
        while count < len(token_ids):
            if self._closing() is not None or self._is_budget_close:
                if not self.check_token(token_ids[count]):
                    break
                self.accept_token(token_ids[count])
                count += 1
                continue
            # Nothing is decided before the next look.
            piece = token_ids[count : count + self._num_before_look]
            num_legal = self._inner.accept_tokens(piece)
            self._token_ids += piece[:num_legal]
            count += num_legal
            if num_legal < len(piece):
                break
        return count

    def rollback(self, num_tokens: int) -> None:
        """Undo the last `num_tokens` accepted tokens."""
        num_left = len(self._token_ids) - num_tokens
        # The ends that a closing accepts in place of the constraint are not in it.
        ended = self._closings[-1] if self._closings and self._closings[-1].ender == "end" else None
        num_own = 0 if ended is None else len(self._token_ids) - max(num_left, ended.start + len(ended.token_ids))
        self._inner.rollback(num_tokens - max(num_own, 0))
        del self._token_ids[num_left:]
        del self._outlines[num_left // CHECK_EVERY + 1 :]
        while self._closings and self._closings[-1].start >= num_left:
            self._closings.pop()
        while self._unclosed and self._unclosed[-1] >= num_left:
            self._unclosed.pop()
        if self._budget is not None:
            self._budget.rollback(num_left)
        self._decided_at = -1

    def forced_tokens(self) -> list[int]:
        """Token ids that must come next, up to where the text is looked at again."""
        closing = self._closing()
        if closing is not None:
            return list(closing.forced_ids(len(self._token_ids)))
        return self._inner.forced_tokens()[: 1 if self._is_budget_close else self._num_before_look]

    @property
    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        closing = self._closing()
        return self._inner.is_accepting and (closing is None or closing.ender == "end")

    @property
    def is_terminated(self) -> bool:
        """Whether the text must end here, or did."""
        closing = self._closing()
        is_ended = closing is not None and closing.ender == "end" and not closing.forced_ids(len(self._token_ids))
        return is_ended or self._inner.is_terminated

    def fork(self) -> ClosingState:
        """Return an independent copy."""
        copy = ClosingState(self._inner.fork(), self._vocabulary, limits=self._limits, lengths=self._lengths)
        copy._budget = self._budget and self._budget.fork(copy._inner)
        copy._token_ids, copy._outlines = list(self._token_ids), list(self._outlines)
        copy._closings, copy._unclosed = list(self._closings), list(self._unclosed)
        copy._decided_at = self._decided_at
        return copy

    @property
    def num_settled_tokens(self) -> int | None:
        """Tokens that no dead end can take back."""
        return None if self.is_terminated else self._inner.num_settled_tokens

    @property
    def early_ends(self) -> tuple[EarlyEnd, ...]:
        """Where values, or the text, were ended."""
        return tuple(closing.early_end for closing in self._closings)

    def mark_dead_end(self) -> None:
        """Refuse from now on whatever leads back to the text so far."""
        self._inner.mark_dead_end()

    @property
    def _num_before_look(self) -> int:
        return CHECK_EVERY - len(self._token_ids) % CHECK_EVERY

    @property
    def _is_budget_close(self) -> bool:
        """Whether so few tokens are left that each must be affordable; known once the position is decided."""
        return self._budget is not None and self._budget.is_close(len(self._token_ids))

    def _is_affordable(self, token_id: int) -> bool:
        assert self._budget is not None
        return self._budget.is_affordable(len(self._token_ids), token_id, self._outline)

    def _is_in(self, closing: Closing, token_id: int) -> bool:
        forced = closing.forced_ids(len(self._token_ids))
        if forced:
            return token_id == forced[0] and self._inner.check_token(token_id)
        if closing.ender == "end":
            return token_id in self._vocabulary.eos_ids
        is_known = 0 <= token_id < self._vocabulary.num_logits
        fits = is_known and _fits(self._vocabulary.token_bytes[token_id], is_quote=closing.ender == "quote")
        if not fits or not self._inner.check_token(token_id):
            return False
        return token_id == closing.next_id or not self._is_budget_close or self._is_affordable(token_id)

    def _closing(self) -> Closing | None:
        """Return what must come here, if the text is being ended."""
        num_tokens = len(self._token_ids)
        if self._decided_at != num_tokens:
            self._decided_at = num_tokens
            self._decide(num_tokens)
        if self._closings and self._closings[-1].covers(num_tokens):
            return self._closings[-1]
        return None

    def _decide(self, num_tokens: int) -> None:
        """Begin to end the text, or a value in it, if that is due at this position."""
        if self._closings and self._closings[-1].ender == "end" and self._closings[-1].covers(num_tokens):
            return
        is_look = num_tokens % CHECK_EVERY == 0
        if self._budget is not None and (is_look or self._is_budget_close) and not self._inner.is_terminated:
            closing = self._budget.closing_at(self._token_ids, self._outline)
            if closing is not None:
                # It counts from here, whatever was being ended before.
                self._closings.append(closing)
                return
        is_ending = bool(self._closings) and self._closings[-1].covers(num_tokens)
        if self._limits is not None and is_look and not is_ending and num_tokens:
            self._end_runaway(self._limits, num_tokens)

    def _end_runaway(self, limits: RunawayLimits, num_tokens: int) -> None:
        outline = self._outline()
        runaway = find_runaway(self._token_ids, outline, self._vocabulary, limits, self._lengths)
        if runaway is None or (self._unclosed and num_tokens < self._unclosed[-1] + _RETRY_AFTER):
            return
        closing = end_of_value(self._inner, self._vocabulary, self._token_ids, outline, runaway)
        if closing is not None:
            self._closings.append(closing)
        else:
            self._unclosed.append(num_tokens)

    def _outline(self) -> Outline:
        """Return where the JSON text stands."""
        token_ids, token_bytes = self._token_ids, self._vocabulary.token_bytes
        while (start := (len(self._outlines) - 1) * CHECK_EVERY) + CHECK_EVERY <= len(token_ids):
            piece = token_ids[start : start + CHECK_EVERY]
            self._outlines.append(self._outlines[-1].read(b"".join([token_bytes[i] for i in piece])))
        rest = token_ids[start:]
        return self._outlines[-1].read(b"".join([token_bytes[i] for i in rest])) if rest else self._outlines[-1]


def _fits(data: bytes, *, is_quote: bool) -> bool:
    """Whether a token ends a string by its first byte, or does not go on with a number."""
    return data[:1] == b'"' if is_quote else not data or data[0] not in _NUMBER_BYTES


@lru_cache(maxsize=8)
def _ender_words(vocabulary: Vocabulary, *, is_quote: bool) -> torch.Tensor:
    """Return the tokens that fit: int32 `[ceil(num_logits / 32)]`."""
    words = torch.zeros((1, num_bitmask_words(vocabulary.num_logits)), dtype=torch.int32)
    ids = [i for i, data in enumerate(vocabulary.token_bytes) if _fits(data, is_quote=is_quote)]
    write_token_ids(words, 0, ids)
    return words[0]
