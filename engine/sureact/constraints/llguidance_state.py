"""Positions inside a grammar, on llguidance's matcher."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

import torch

from sureact.constraints.constraint import CompiledConstraint, ConstraintState
from sureact.constraints.token_bitmask import legal_bitmask, num_bitmask_words, write_token_ids
from sureact.errors import ConstraintStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt
    from llguidance import LLMatcher

    from sureact.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, eq=False)
class CompiledGrammar(CompiledConstraint):
    """A grammar bound to a vocabulary."""

    matcher: LLMatcher
    """At the start of the text; copied, never advanced."""
    vocabulary: Vocabulary
    illegal_ids: frozenset[int]
    """Ids that may never appear under this grammar: unused ones, and control ids that it does not name."""
    legal_words: npt.NDArray[np.int32] | None
    """`[ceil(num_logits / 32)]`: all other ids, where the grammar itself could let an illegal one through."""
    no_words: bytes
    """What a row that allows nothing looks like."""
    spells_json: bool
    """Whether backslashes begin escapes of JSON strings."""

    @classmethod
    def of(
        cls,
        matcher: LLMatcher,
        vocabulary: Vocabulary,
        named_control_ids: frozenset[int],
        *,
        needs_legal_words: bool,
        spells_json: bool,
    ) -> CompiledGrammar:
        """Bind a matcher to the vocabulary it was made for.

        Args:
            matcher: at the start of the text.
            vocabulary: that of the matcher.
            named_control_ids: the control tokens that the grammar names.
            needs_legal_words: whether the grammar could let an illegal id through.
            spells_json: whether backslashes begin escapes of JSON strings.
        """
        illegal_ids = (vocabulary.control_ids - named_control_ids - set(vocabulary.eos_ids)) | vocabulary.unused_ids
        legal_words = legal_bitmask(vocabulary, named_control_ids)[0].numpy() if needs_legal_words else None
        no_words = bytes(4 * num_bitmask_words(vocabulary.num_logits))
        return cls(matcher, vocabulary, illegal_ids, legal_words, no_words, spells_json)

    def new_state(self) -> GrammarState:
        """Return a position at the start of the text."""
        from sureact.constraints.json_grammar_state import JsonGrammarState

        return (JsonGrammarState if self.spells_json else GrammarState)(self, self.matcher.deep_copy())


class GrammarState(ConstraintState):
    """A position inside a grammar.

    End-of-sequence tokens that end the text are counted here and never shown to llguidance: it records them as a step
    in some positions and not in others, so that it would roll back too far.
    """

    def __init__(self, compiled: CompiledGrammar, matcher: LLMatcher) -> None:
        self._compiled = compiled
        self._matcher = matcher
        self._token_ids: list[int] = []
        self._num_ends = 0
        self._bitmask: torch.Tensor | None = None
        self._rows: npt.NDArray[np.int32]

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> None:
        """Overwrite `bitmask[row]` with the tokens allowed here; where the text is forced, with its canonical token."""
        if self._num_ends:
            write_token_ids(bitmask, row, self._compiled.vocabulary.eos_ids)
            return
        compiled, matcher = self._compiled, self._matcher
        # A request is masked in the same bitmask at each step: looking at it costs more than filling it.
        if bitmask is not self._bitmask:
            self._rows, self._bitmask = _checked_rows(bitmask, compiled.vocabulary.num_logits), bitmask
        assert row >= 0, "rows are counted from the front"
        words = self._rows[row]
        num_bytes = len(compiled.no_words)
        matcher.unsafe_compute_mask_ptr(bitmask.data_ptr() + row * num_bytes, num_bytes)
        is_empty = False
        if compiled.legal_words is not None:
            words &= compiled.legal_words
            is_empty = words.tobytes() == compiled.no_words
        # With no way on, llguidance offers the end of an unfinished text, and notes an error.
        if is_empty or matcher.get_error().startswith("NoExtension"):
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
        self._token_ids.append(token_id)

    def accept_tokens(self, token_ids: Sequence[int]) -> int:
        """Advance over as many of `token_ids` as are legal, in one call for those that are text."""
        eos_ids = self._compiled.vocabulary.eos_ids
        texts = list(takewhile(lambda token_id: token_id not in eos_ids and self._is_legal(token_id), token_ids))
        count = 0 if self._num_ends else self._matcher.try_consume_tokens(texts)
        self._token_ids += texts[:count]
        if count < len(texts):
            return count
        return count + super().accept_tokens(token_ids[count:])

    def rollback(self, num_tokens: int) -> None:
        """Undo the last `num_tokens` accepted tokens."""
        num_accepted = len(self._token_ids)
        if not 0 <= num_tokens <= num_accepted:
            raise ConstraintStateError(f"Cannot undo {num_tokens} tokens: {num_accepted} were accepted.")
        num_ends = min(num_tokens, self._num_ends)
        self._num_ends -= num_ends
        del self._token_ids[num_accepted - num_tokens :]
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
        copy = GrammarState(self._compiled, self._matcher.deep_copy())
        copy._token_ids, copy._num_ends = list(self._token_ids), self._num_ends
        return copy

    def _is_legal(self, token_id: int) -> bool:
        compiled = self._compiled
        return 0 <= token_id < compiled.vocabulary.num_logits and token_id not in compiled.illegal_ids

    def _ends_text(self, token_id: int) -> bool:
        return token_id in self._compiled.vocabulary.eos_ids and self._matcher.is_accepting()

    def _raise_on_error(self, doing: str) -> None:
        if self._matcher.is_error():
            reason = self._matcher.get_error().split("\n")[0]
            raise ConstraintStateError(f"Cannot {doing}: {reason or self._matcher.stop_reason()}.")


def _checked_rows(bitmask: torch.Tensor, num_logits: int) -> npt.NDArray[np.int32]:
    """Return the words of a bitmask, sharing its memory."""
    num_words = num_bitmask_words(num_logits)
    is_fit = bitmask.dtype == torch.int32 and bitmask.ndim == 2 and bitmask.shape[1] == num_words
    if not is_fit or not bitmask.is_contiguous() or bitmask.is_cuda:
        raise ConstraintStateError(
            f"The bitmask row is {bitmask.dtype} {tuple(bitmask.shape[1:])} on {bitmask.device}; it must be contiguous "
            f"torch.int32 {(num_words,)} on the host, one bit per row of the model's head."
        )
    return bitmask.numpy()
