"""Text that matches a regular expression from its first to its last character."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sureact.constraints.byte_matcher import has_text, matches_grammar
from sureact.constraints.compiler import GrammarConstraint
from sureact.constraints.regex_fault import regex_fault, repeated_repeat, size_fault
from sureact.errors import ConfigError, ConstraintCompileError, InternalError
from sureact.sampling_params import has_surrogate

if TYPE_CHECKING:
    from llguidance import LLTokenizer

    from sureact.errors import ConstraintError

_CLASS_OR_FLAGS = re.compile(r"\\.|\[(?P<members>\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*)\]|\(\?(?P<flags>\w+)", re.DOTALL)
_ESCAPE_OR_NAMED_CLASS = re.compile(r"\\.|\[:\^?\w+:\]", re.DOTALL)


def regex(pattern: str) -> RegexConstraint:
    r"""Constrain a text to match `pattern` as a whole; anchors at its ends are allowed and change nothing.

    The syntax is Python's, with `\p{...}` for Unicode properties. `\d` is an ASCII digit; `\w` and `\s` are Unicode;
    `.` is any character but a newline; `(?i)` ignores case, `(?s)` lets `.` be a newline. What needs more than a finite
    automaton (lookaround, backreferences, `\b`) is refused when compiled, and so are counts in one another that no long
    text can be followed through, such as `(a{1,100}){1,100}`.

    Raises:
        ConfigError: `pattern` is not a text that UTF-8 can spell.
    """
    if not isinstance(pattern, str):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
        raise ConfigError(f"The regex is {pattern!r}; it must be a text.")
    if has_surrogate(pattern):
        raise ConfigError(f"The regex {pattern!r} holds a lone surrogate: no token can spell it.")
    return RegexConstraint(pattern)


@dataclass(frozen=True, slots=True)
class RegexConstraint(GrammarConstraint):
    """Full match of `pattern`."""

    pattern: str

    @property
    def cache_key(self) -> str:
        """The pattern."""
        return "regex:" + self.pattern

    def grammar(self, tokenizer: LLTokenizer) -> str:
        """Return a grammar of the one terminal."""
        _refuse_foreign_syntax(self.pattern)
        lark = self._lark()
        if not has_text(lark):
            raise ConstraintCompileError(
                f"The regex {self.pattern!r} matches no text at all. Remove what contradicts itself in it."
            )
        if fault := size_fault(self.pattern, lambda _: lark):
            raise ConstraintCompileError(f"The regex {self.pattern!r} cannot be used: {fault}")
        return lark

    def compile_error(self, reason: str) -> ConstraintError:
        """Return the error that names what the pattern holds and no automaton can do."""
        return ConstraintCompileError(f"The regex {self.pattern!r} cannot be used: {regex_fault(reason)}")

    def parse(self, text: str) -> str:
        """Return `text`.

        Raises:
            InternalError: it does not match.
        """
        if not matches_grammar(self._lark(), text):
            raise InternalError(f"The finished text {text!r} does not match the regex {self.pattern!r}.")
        return text

    def _lark(self) -> str:
        from llguidance import regex_to_lark

        return f"start: /{regex_to_lark(_with_rust_end(self.pattern), 'd')}/\n"


def _refuse_foreign_syntax(pattern: str) -> None:
    """Refuse what the engine's dialect would silently read in another way than Python."""
    for match in _CLASS_OR_FLAGS.finditer(pattern):
        members = _ESCAPE_OR_NAMED_CLASS.sub("_", match["members"] or "")
        foreign = next((operator for operator in ("[", "&&", "--", "~~") if operator in members), None)
        if foreign:
            raise ConstraintCompileError(
                f"The regex {pattern!r} holds `{foreign}` in the class {match[0]}, which dialects read in different "
                "ways. Write a backslash before each of these characters."
            )
        if "x" in (match["flags"] or ""):
            raise ConstraintCompileError(
                f"The regex {pattern!r} sets the flag x, which is not served. Leave blanks out."
            )
    if (repeat := repeated_repeat(pattern)) is not None:
        raise ConstraintCompileError(
            f"The regex {pattern!r} holds `{repeat}`, the repeat of a repeat, which dialects read in different ways. "
            "Write (?:...) around what is repeated, or remove one of them."
        )


def _with_rust_end(pattern: str) -> str:
    r"""Write Python's end anchor `\Z` as the engine knows it, `\z`."""
    body = pattern.removesuffix(r"\Z")
    is_anchor = body != pattern and (len(body) - len(body.rstrip("\\"))) % 2 == 0
    return body + r"\z" if is_anchor else pattern
