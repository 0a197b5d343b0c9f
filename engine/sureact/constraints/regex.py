"""Text that matches a regular expression from its first to its last character."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sureact.constraints.byte_matcher import matches_grammar
from sureact.constraints.compiler import GrammarConstraint
from sureact.errors import ConfigError, ConstraintCompileError, InternalError

if TYPE_CHECKING:
    from llguidance import LLTokenizer

    from sureact.errors import ConstraintError


def regex(pattern: str) -> RegexConstraint:
    r"""Constrain a text to match `pattern` as a whole; anchors at its ends are allowed and change nothing.

    `\d` is an ASCII digit; `\w` and `\s` are Unicode; `.` is any character but a newline. What needs more than a finite
    automaton (lookaround, backreferences, `\b`) is refused when compiled.

    Raises:
        ConfigError: `pattern` is not a text.
    """
    if not isinstance(pattern, str):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
        raise ConfigError(f"The regex is {pattern!r}; it must be a text.")
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
        return self._lark()

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


def regex_fault(reason: str) -> str:
    """Return the line of llguidance's error that names the fault of a regex."""
    lines = reason.splitlines()
    named = [line for line in lines if line.startswith(("error: ", "lookarounds"))]
    if named:
        return named[0].removeprefix("error: ") + "."
    return lines[0].split("(in regex): ")[-1]


def _with_rust_end(pattern: str) -> str:
    r"""Write Python's end anchor `\Z` as the engine knows it, `\z`."""
    body = pattern.removesuffix(r"\Z")
    is_anchor = body != pattern and (len(body) - len(body.rstrip("\\"))) % 2 == 0
    return body + r"\z" if is_anchor else pattern
