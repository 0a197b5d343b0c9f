"""Text of a context-free language, written in Lark syntax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sureact.constraints.compiler import GrammarConstraint, token_ids_named
from sureact.errors import ConfigError, ConstraintCompileError

if TYPE_CHECKING:
    from llguidance import LLTokenizer

    from sureact.errors import ConstraintError


def grammar(lark_text: str) -> LarkConstraint:
    """Constrain a text by a Lark grammar whose first rule is `start`.

    On top of Lark: control tokens by name (`<tool_call>`), and `%json {...}` for a JSON schema as a rule.

    Raises:
        ConfigError: `lark_text` is not a text, or empty.
    """
    if not isinstance(lark_text, str) or not lark_text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"The grammar is {lark_text!r}; it must be Lark text with a rule 'start'.")
    return LarkConstraint(lark_text)


@dataclass(frozen=True, slots=True)
class LarkConstraint(GrammarConstraint):
    """The language of a Lark grammar."""

    lark_text: str

    @property
    def cache_key(self) -> str:
        """The grammar text."""
        return "grammar:" + self.lark_text

    def grammar(self, tokenizer: LLTokenizer) -> str:
        """Return the grammar text."""
        return self.lark_text

    def named_control_ids(self, tokenizer: LLTokenizer) -> frozenset[int]:
        """Return the tokens that the grammar writes in angle brackets."""
        return token_ids_named(self.lark_text, tokenizer)

    def compile_error(self, reason: str) -> ConstraintError:
        """Return the error with the engine's reason and the place it points at."""
        return ConstraintCompileError(f"The grammar cannot be used: {reason.strip()}")
