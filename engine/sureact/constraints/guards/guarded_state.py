"""A grammar with a guard beside it: the grammar gives the mask, the guard has the last word on the picked token."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from sureact.constraints.constraint import CompiledConstraint, ConstraintState
from sureact.errors import ConstraintStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from sureact.constraints.guards.guard import Guard, GuardState
    from sureact.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, eq=False)
class GuardedConstraint(CompiledConstraint):
    """A compiled grammar whose texts a guard judges."""

    grammar: CompiledConstraint
    guard: Guard
    vocabulary: Vocabulary

    @property
    def is_guarded(self) -> bool:
        """True."""
        return True

    def new_state(self) -> GuardedState:
        """Return a position at the start of the text."""
        return GuardedState(self, self.grammar.new_state())


class GuardedState(ConstraintState):
    """A position inside a guarded text."""

    def __init__(self, compiled: GuardedConstraint, grammar: ConstraintState) -> None:
        self._compiled = compiled
        self._grammar = grammar
        self._guard: GuardState = compiled.guard.new_state()
        self._text = bytearray()
        self._text_ends: list[int] = []  # length of the text after each token
        self._positions: list[object] = []  # of the guard, before each token
        self._dead_texts: set[bytes] = set()
        # The guard may have read one token ahead: most tokens that are checked are accepted next.
        self._ahead: tuple[int, object] | None = None

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> None:
        """Overwrite `bitmask[row]` with what the grammar allows: a superset."""
        self._grammar.fill_bitmask(bitmask, row)

    def check_token(self, token_id: int) -> bool:
        """Whether grammar and guard let `token_id` come next."""
        if not self._grammar.check_token(token_id):
            return False
        self._step_back()
        if self._ends_text(token_id):
            return self._guard.can_end()
        data = self._compiled.vocabulary.token_bytes[token_id]
        if self._dead_texts and self._is_dead(data):
            return False
        position = self._guard.position()
        self._ahead = (token_id, position)
        if self._guard.feed(data):
            return True
        self._step_back()
        return False

    def accept_token(self, token_id: int) -> None:
        """Advance over `token_id`."""
        is_checked = self._ahead is not None and self._ahead[0] == token_id
        if not is_checked and not self.check_token(token_id):
            self._refuse(token_id)
        position = self._guard.position() if self._ahead is None else self._ahead[1]
        self._ahead = None
        if not self._ends_text(token_id):
            self._text += self._compiled.vocabulary.token_bytes[token_id]
        self._grammar.accept_token(token_id)
        self._positions.append(position)
        self._text_ends.append(len(self._text))

    def accept_tokens(self, token_ids: Sequence[int]) -> int:
        """Advance over as many of `token_ids` as are legal; the grammar reads them in one go."""
        self._step_back()
        token_bytes, eos_ids = self._compiled.vocabulary.token_bytes, self._compiled.vocabulary.eos_ids
        texts = list(takewhile(lambda token_id: token_id not in eos_ids, token_ids))
        count = self._grammar.accept_tokens(texts)
        for index in range(count):
            data = token_bytes[texts[index]]
            position = self._guard.position()
            if (self._dead_texts and self._is_dead(data)) or not self._guard.feed(data):
                self._guard.go_back(position)
                self._grammar.rollback(count - index)
                return index
            self._text += data
            self._positions.append(position)
            self._text_ends.append(len(self._text))
        if count < len(texts):
            return count
        return count + super().accept_tokens(token_ids[count:])

    def rollback(self, num_tokens: int) -> None:
        """Undo the last `num_tokens` accepted tokens."""
        self._grammar.rollback(num_tokens)
        self._step_back()
        if not num_tokens:
            return
        self._guard.go_back(self._positions[-num_tokens])
        del self._positions[-num_tokens:]
        del self._text_ends[-num_tokens:]
        del self._text[self._text_ends[-1] if self._text_ends else 0 :]

    def forced_tokens(self) -> list[int]:
        """Token ids that must come next, up to the first that the guard refuses."""
        self._step_back()
        position = self._guard.position()
        forced: list[int] = []
        data = b""
        for token_id in self._grammar.forced_tokens():
            token = self._compiled.vocabulary.token_bytes[token_id]
            data += token
            if (self._dead_texts and self._is_dead(data)) or not self._guard.feed(token):
                break
            forced.append(token_id)
        self._guard.go_back(position)
        return forced

    @property
    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        return self._grammar.is_accepting and self._guard_can_end()

    @property
    def is_terminated(self) -> bool:
        """Whether the text must end here, or did."""
        return self._grammar.is_terminated and self._guard_can_end()

    def fork(self) -> GuardedState:
        """Return an independent copy; it reads the text once more."""
        copy = GuardedState(self._compiled, self._grammar.fork())
        start = 0
        for end in self._text_ends:
            copy._positions.append(copy._guard.position())
            copy._guard.feed(bytes(self._text[start:end]))
            start = end
        copy._text, copy._text_ends = bytearray(self._text), list(self._text_ends)
        copy._dead_texts = set(self._dead_texts)
        return copy

    @property
    def num_settled_tokens(self) -> int | None:
        """Tokens that lie before what the guard may still take back."""
        if self.is_terminated:
            return None
        self._step_back()
        return bisect_right(self._text_ends, self._guard.num_settled_bytes)

    def mark_dead_end(self) -> None:
        """Refuse from now on whatever leads back to the text so far."""
        self._dead_texts.add(bytes(self._text))

    def _is_dead(self, data: bytes) -> bool:
        text = bytes(self._text) + data
        return any(len(dead) > len(self._text) and text.startswith(dead) for dead in self._dead_texts)

    def _guard_can_end(self) -> bool:
        self._step_back()
        return self._guard.can_end()

    def _ends_text(self, token_id: int) -> bool:
        return token_id in self._compiled.vocabulary.eos_ids and self._grammar.is_accepting

    def _step_back(self) -> None:
        if self._ahead is not None:
            self._guard.go_back(self._ahead[1])
            self._ahead = None

    def _refuse(self, token_id: int) -> None:
        known = 0 <= token_id < self._compiled.vocabulary.num_logits
        token = repr(self._compiled.vocabulary.token_bytes[token_id]) if known else "which does not exist"
        raise ConstraintStateError(f"Token {token_id} {token} is not legal here.")
