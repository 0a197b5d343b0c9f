"""The interfaces of constrained decoding: what may come next. Nothing here knows a grammar engine.

A `Constraint` is what the user asked for. Compiled for a vocabulary it is shared by all requests; each request holds
one `ConstraintState`, its position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from sureact.errors import ConstraintStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from sureact.outputs import EarlyEnd
    from sureact.tokens.vocabulary import Vocabulary


class Constraint(ABC):
    """What a generated text must look like, independent of any model. Immutable and hashable by `cache_key`."""

    @property
    @abstractmethod
    def cache_key(self) -> str:
        """Text that two constraints share exactly when they allow the same texts in the same spellings."""

    @abstractmethod
    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Bind to a vocabulary. Thread-safe.

        Raises:
            ConstraintCompileError: malformed or unsatisfiable.
            UnsupportedSchemaError: a keyword cannot be enforced.
        """

    def parse(self, text: str) -> object:
        """Turn a complete text into the value the user asked for, and judge it once more; the text itself by default.

        Raises:
            ConstraintError: the value is refused by what no grammar can hold.
            InternalError: the text violates the constraint.
        """
        return text


class CompiledConstraint(ABC):
    """A constraint bound to one vocabulary; shared, immutable."""

    @abstractmethod
    def new_state(self) -> ConstraintState:
        """Return a fresh position at the start of the text. Each request needs its own."""

    @property
    def is_guarded(self) -> bool:
        """Whether a guard judges tokens that the bitmask allows, so that it is a superset of what may come next."""
        return False


class ConstraintState(ABC):
    """One request's position inside a constraint. Not thread-safe; never used again after an error.

    A bitmask is an int32 tensor `[rows, ceil(num_logits / 32)]` on the host: bit `id % 32` of word `id // 32` is 1
    where the token may come next. `num_logits` is the number of rows of the model's head, not of its tokenizer.
    """

    @abstractmethod
    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> None:
        """Overwrite `bitmask[row]` with the tokens allowed here: exact, or a superset where a guard judges too.

        Where the text is forced, only the token of its canonical tokenization may be set, not the other ways to cut it.

        Control tokens are 0 but for end-of-sequence ids where the text may end, and for those a grammar names. Rows of
        the head without a token are 0.

        Raises:
            ConstraintStateError: no token is allowed, so decoding cannot go on.
        """

    @abstractmethod
    def check_token(self, token_id: int) -> bool:
        """Whether `token_id` may come next; the last word on a picked token. Does not change the state."""

    @abstractmethod
    def accept_token(self, token_id: int) -> None:
        """Advance over `token_id`.

        Raises:
            ConstraintStateError: the token is not legal here. The state must not be used again.
        """

    def accept_tokens(self, token_ids: Sequence[int]) -> int:
        """Advance over as many of `token_ids` as are legal one after another, and return how many those were."""
        for count, token_id in enumerate(token_ids):
            if not self.check_token(token_id):
                return count
            self.accept_token(token_id)
        return len(token_ids)

    @abstractmethod
    def rollback(self, num_tokens: int) -> None:
        """Undo the last `num_tokens` accepted tokens."""

    @abstractmethod
    def forced_tokens(self) -> list[int]:
        """Token ids that must come next in the canonical tokenization, maybe none. Does not change the state."""

    @property
    @abstractmethod
    def is_accepting(self) -> bool:
        """Whether the text may end here."""

    @property
    @abstractmethod
    def is_terminated(self) -> bool:
        """Whether the text must end here: nothing but end-of-sequence may follow, or it came already."""

    @abstractmethod
    def fork(self) -> ConstraintState:
        """Return an independent copy at the same position."""

    @property
    def num_settled_tokens(self) -> int | None:
        """How many of the accepted tokens no dead end can take back; None for all of them.

        A stream shows settled tokens only. Grows and never shrinks but by `rollback`.
        """
        return None

    @property
    def early_ends(self) -> tuple[EarlyEnd, ...]:
        """Where the text so far was ended although the model would have gone on."""
        return ()

    def mark_dead_end(self) -> None:
        """Remember that the text so far cannot go on: `check_token` refuses whatever would lead back to it.

        Called when every token was refused, before `rollback(1)`. What is remembered outlives rollbacks.

        Raises:
            ConstraintStateError: the constraint has no dead ends; that none of its tokens is legal is a fault.
        """
        raise ConstraintStateError("No token of this vocabulary can continue the constrained text.")
