r"""Positions inside a grammar of JSON, where a slash may be written `\/`, which llguidance 1.9 does not offer.

After a backslash that begins an escape, a slash leads where it would have led without the backslash. Tokens that hold
`\/` inside stay out of the mask; the text is spelled by those before and after.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from sureact.constraints.llguidance_state import CompiledGrammar, GrammarState
from sureact.constraints.token_bitmask import num_bitmask_words, write_token_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llguidance import LLMatcher

    from sureact.tokens.vocabulary import Vocabulary


class JsonGrammarState(GrammarState):
    """A position inside a grammar whose backslashes begin escapes of JSON strings."""

    def __init__(self, compiled: CompiledGrammar, matcher: LLMatcher) -> None:
        super().__init__(compiled, matcher)
        # Where the matcher took another way than the text, the number of tokens before, and the matcher then.
        self._detours: list[tuple[int, LLMatcher]] = []

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> None:
        """Overwrite `bitmask[row]` with the tokens allowed here."""
        super().fill_bitmask(bitmask, row)
        ends_in_backslash = self._token_ids and self._compiled.vocabulary.token_bytes[self._token_ids[-1]][-1:] == b"\\"
        if ends_in_backslash and (matcher := self._without_backslash()) is not None:
            num_words = num_bitmask_words(self._compiled.vocabulary.num_logits)
            words = torch.zeros((1, num_words), dtype=torch.int32)
            matcher.unsafe_compute_mask_ptr(words.data_ptr(), 4 * num_words)
            bitmask[row] |= words[0] & _slash_words(self._compiled.vocabulary)

    def check_token(self, token_id: int) -> bool:
        """Whether `token_id` may come next."""
        return super().check_token(token_id) or self._after_slash(token_id) is not None

    def accept_token(self, token_id: int) -> None:
        """Advance over `token_id`."""
        matcher = None if super().check_token(token_id) else self._after_slash(token_id)
        if matcher is None:
            super().accept_token(token_id)
            return
        self._detours.append((len(self._token_ids), self._matcher))
        self._matcher = matcher
        self._token_ids.append(token_id)

    def accept_tokens(self, token_ids: Sequence[int]) -> int:
        """Advance over as many of `token_ids` as are legal."""
        count = super().accept_tokens(token_ids)
        while count < len(token_ids) and self.check_token(token_ids[count]):
            self.accept_token(token_ids[count])
            count += 1
            count += super().accept_tokens(token_ids[count:])
        return count

    def rollback(self, num_tokens: int) -> None:
        """Undo the last `num_tokens` accepted tokens."""
        target = len(self._token_ids) - num_tokens
        while self._detours and 0 <= target <= self._detours[-1][0]:
            num_before, self._matcher = self._detours.pop()
            del self._token_ids[num_before:]
            self._num_ends = 0
        super().rollback(len(self._token_ids) - target)

    def forced_tokens(self) -> list[int]:
        """Token ids that must come next; a slash is another way on after a backslash."""
        return [] if self._is_in_escape() else super().forced_tokens()

    def fork(self) -> JsonGrammarState:
        """Return an independent copy."""
        copy = JsonGrammarState(self._compiled, self._matcher.deep_copy())
        copy._token_ids, copy._num_ends = list(self._token_ids), self._num_ends
        copy._detours = [(num_before, matcher.deep_copy()) for num_before, matcher in self._detours]
        return copy

    def _after_slash(self, token_id: int) -> LLMatcher | None:
        """Return the matcher after a token that begins with a slash in an escape; None where there is none."""
        if not self._is_legal(token_id) or self._compiled.vocabulary.token_bytes[token_id][:1] != b"/":
            return None
        matcher = self._without_backslash()
        if matcher is None or matcher.try_consume_tokens([token_id]) == 0:
            return None
        return matcher

    def _without_backslash(self) -> LLMatcher | None:
        """Return a matcher as if the backslash before were not there; None if it begins no escape."""
        if self._num_ends or not self._is_in_escape():
            return None
        from sureact.constraints.compiler import tokenizer_of

        vocabulary = self._compiled.vocabulary
        matcher = self._matcher.deep_copy()
        matcher.rollback(1)
        before = tokenizer_of(vocabulary).tokenize_bytes(vocabulary.token_bytes[self._token_ids[-1]][:-1])
        return matcher if matcher.try_consume_tokens(before) == len(before) else None

    def _is_in_escape(self) -> bool:
        """Whether the text ends in a backslash that is not the second of a pair."""
        num_backslashes = 0
        for token_id in reversed(self._token_ids):
            data = self._compiled.vocabulary.token_bytes[token_id]
            others = data.rstrip(b"\\")
            num_backslashes += len(data) - len(others)
            if others or not data:
                break
        return num_backslashes % 2 == 1


@lru_cache(maxsize=4)
def _slash_words(vocabulary: Vocabulary) -> torch.Tensor:
    """Return the tokens that begin with a slash: int32 `[ceil(num_logits / 32)]`."""
    words = torch.zeros((1, num_bitmask_words(vocabulary.num_logits)), dtype=torch.int32)
    write_token_ids(words, 0, [i for i, data in enumerate(vocabulary.token_bytes) if data[:1] == b"/"])
    return words[0]
