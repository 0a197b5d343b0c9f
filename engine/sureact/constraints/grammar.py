"""Text of a context-free language, written in Lark syntax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sureact.constraints.byte_matcher import grammar_error, has_text, matches_grammar
from sureact.constraints.compiler import GrammarConstraint, token_ids_named
from sureact.errors import ConfigError, ConstraintCompileError, InternalError
from sureact.sampling_params import has_surrogate

if TYPE_CHECKING:
    from llguidance import LLTokenizer

    from sureact.errors import ConstraintError


def grammar(lark_text: str) -> LarkConstraint:
    """Constrain a text by a Lark grammar whose first rule is `start`.

    Of Lark: rules, terminals with the flags `i` and `s`, ranges, repetition, `%ignore`, and `%import common.NAME`; no
    templates and no priorities. On top of it: control tokens by name (`<tool_call>`), and `%json {...}` for a JSON
    schema as a rule.

    Raises:
        ConfigError: `lark_text` is not a text that UTF-8 can spell, or empty.
    """
    if not isinstance(lark_text, str) or not lark_text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"The grammar is {lark_text!r}; it must be Lark text with a rule 'start'.")
    if has_surrogate(lark_text):
        raise ConfigError(f"The grammar {lark_text!r} holds a lone surrogate: no token can spell it.")
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
        if not has_text(self.lark_text):
            raise ConstraintCompileError(
                "The grammar matches no text at all. Give 'start' a way to end that needs no other rule without end."
            )
        return self.lark_text

    def named_control_ids(self, tokenizer: LLTokenizer) -> frozenset[int]:
        """Return the tokens that the grammar writes in angle brackets."""
        return token_ids_named(self.lark_text, tokenizer)

    def parse(self, text: str) -> str:
        """Return `text`.

        A grammar that names control tokens is not judged again: they have no text.

        Raises:
            InternalError: it does not match.
        """
        if matches_grammar(self.lark_text, text) or "<[" in self.lark_text or grammar_error(self.lark_text):
            return text
        raise InternalError(f"The finished text {text!r} does not match the grammar.")

    def compile_error(self, reason: str) -> ConstraintError:
        """Return the error with the engine's reason and the place it points at."""
        return ConstraintCompileError(f"The grammar cannot be used: {reason.strip()}")
