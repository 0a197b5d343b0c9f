"""Positions inside a grammar, on llguidance's matcher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sureact.constraints.constraint import CompiledConstraint, ConstraintState
from sureact.constraints.token_bitmask import is_token_allowed, write_token_ids
from sureact.errors import ConstraintStateError

if TYPE_CHECKING:
    import torch
    from llguidance import LLMatcher

    from sureact.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, eq=False)
class CompiledGrammar(CompiledConstraint):
    """A grammar bound to a vocabulary."""

    matcher: LLMatcher
    """At the start of the text; copied, never advanced."""
    vocabulary: Vocabulary
    legal: torch.Tensor
    """`[1, ceil(num_logits / 32)]`, int32: the ids that may ever appear under this grammar."""

    def new_state(self) -> GrammarState:
        """Return a position at the start of the text."""
        return GrammarState(self, self.matcher.deep_copy())


class GrammarState(ConstraintState):
    """A position inside a grammar.

    End-of-sequence tokens that end the text are counted here and never shown to llguidance: it records them as a step
    in some positions and not in others, so that it would roll back too far.
    """

    def __init__(self, compiled: CompiledGrammar, matcher: LLMatcher, num_accepted: int = 0, num_ends: int = 0) -> None:
        """Wrap `matcher`, which has consumed `num_accepted - num_ends` tokens."""
        self._compiled = compiled
        self._matcher = matcher
        self._num_accepted = num_accepted
        self._num_ends = num_ends

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> None:
        """Overwrite `bitmask[row]` with the tokens allowed here; where the text is forced, with its canonical token."""
        if self._num_ends:
            write_token_ids(bitmask, row, self._compiled.vocabulary.eos_ids)
            return
        words = bitmask[row]
        legal = self._compiled.legal[0]
        if words.dtype != legal.dtype or words.shape != legal.shape or not words.is_contiguous() or words.is_cuda:
            raise ConstraintStateError(
                f"The bitmask row is {words.dtype} {tuple(words.shape)} on {words.device}; it must be contiguous "
                f"{legal.dtype} {tuple(legal.shape)} on the host, one bit per row of the model's head."
            )
        self._matcher.unsafe_compute_mask_ptr(words.data_ptr(), words.numel() * words.element_size())
        words &= legal
        # With no way on, llguidance offers the end of an unfinished text, and notes an error.
        if self._matcher.get_error().startswith("NoExtension") or not words.any():
            raise ConstraintStateError("No token of this vocabulary can continue the constrained text.")
        self._raise_on_error("compute a mask")

    def check_token(self, token_id: int) -> bool:
        """Whether `token_id` may come next."""
        if not self._is_legal(token_id):
            return False
        if self._ends_text(token_id):
            return True
        return not self._num_ends and self._matcher.validate_tokens([token_id]) == 1

    def accept_token(self, token_id: int) -> None:
        """Advance over `token_id`."""
        if self._is_legal(token_id) and self._ends_text(token_id):
            self._num_ends += 1
        elif not self.check_token(token_id) or not self._matcher.consume_token(token_id):
            token = self._compiled.vocabulary.token_bytes[token_id : token_id + 1] if token_id >= 0 else ()
            raise ConstraintStateError(
                f"Token {token_id} {token[0]!r} is not legal here." if token else f"Token {token_id} does not exist."
            )
        self._num_accepted += 1

    def rollback(self, num_tokens: int) -> None:
        """Undo the last `num_tokens` accepted tokens."""
        if not 0 <= num_tokens <= self._num_accepted:
            raise ConstraintStateError(f"Cannot undo {num_tokens} tokens: {self._num_accepted} were accepted.")
        num_ends = min(num_tokens, self._num_ends)
        self._num_ends -= num_ends
        self._num_accepted -= num_tokens
        if num_tokens > num_ends:
            self._matcher.rollback(num_tokens - num_ends)
            self._raise_on_error("roll back")

    def forced_tokens(self) -> list[int]:
        """Token ids that must come next."""
        if self._num_ends or self._matcher.is_stopped():
            return []
        forced = self._matcher.compute_ff_tokens()
        self._raise_on_error("compute forced tokens")
        return forced

    @property
    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        return self._matcher.is_accepting()

    @property
    def is_terminated(self) -> bool:
        """Whether the text must end here, or did."""
        return self._num_ends > 0 or self._matcher.is_stopped()

    def fork(self) -> GrammarState:
        """Return an independent copy."""
        return GrammarState(self._compiled, self._matcher.deep_copy(), self._num_accepted, self._num_ends)

    def _is_legal(self, token_id: int) -> bool:
        in_range = 0 <= token_id < self._compiled.vocabulary.num_logits
        return in_range and is_token_allowed(self._compiled.legal, 0, token_id)

    def _ends_text(self, token_id: int) -> bool:
        return token_id in self._compiled.vocabulary.eos_ids and self._matcher.is_accepting()

    def _raise_on_error(self, doing: str) -> None:
        if self._matcher.is_error():
            reason = self._matcher.get_error().split("\n")[0]
            raise ConstraintStateError(f"Cannot {doing}: {reason or self._matcher.stop_reason()}.")
