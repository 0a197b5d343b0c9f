"""Regexes of ECMA-262, the dialect of JSON Schema, in the dialect of the automata that test them.

An automaton cannot look around. Looking ahead at the start of a text it need not: `^(?!a)b` is a text that `^b` matches
and `^a` does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_PIECE = re.compile(
    r"(?P<escape>\\(?:c[A-Za-z]|[pPux]\{[^}]*\}|.))"
    r"|(?P<class>\[\^?(?:\\.|[^\]\\])*\])"
    r"|(?P<brace>\{(?!\d+(?:,\d*)?\}))"
    r"|(?P<text>.)",
    re.DOTALL,
)
_CLASS_MEMBER = re.compile(
    r"(?P<escape>\\(?:c[A-Za-z]|[pPux]\{[^}]*\}|.))|(?P<operator>\[(?!:)|&&|--|~~)|(?P<text>.)", re.DOTALL
)
_LOOKAHEAD = re.compile(r"\(\?([=!])")


@dataclass(frozen=True, slots=True)
class PatternParts:
    """A pattern as others without lookahead at their start."""

    required: tuple[str, ...]
    """All of them must occur."""
    forbidden: tuple[str, ...] = ()
    """None of them may occur."""


@lru_cache(maxsize=4096)
def pattern_parts(pattern: str) -> PatternParts:
    """Split and translate a pattern; what no automaton can do stays in it, and is refused when it is compiled."""
    if not pattern.startswith("^(?") or "|" in _top_level(pattern):
        return PatternParts((_translated(pattern),))
    required: list[str] = []
    forbidden: list[str] = []
    rest = pattern[1:]
    while (ahead := _LOOKAHEAD.match(rest)) is not None:
        end = _group_end(rest)
        part = f"^(?:{_translated(rest[ahead.end() : end])})"
        (required if ahead[1] == "=" else forbidden).append(part)
        rest = rest[end + 1 :]
    return PatternParts((*required, "^" + _translated(rest)), tuple(forbidden))


def _translated(pattern: str) -> str:
    """Write escapes, braces and classes as the other dialect reads them."""
    return "".join(
        _escape(piece[0]) if piece["escape"] else _class(piece[0]) if piece["class"] else _literal(piece)
        for piece in _PIECE.finditer(pattern)
    )


def _literal(piece: re.Match[str]) -> str:
    return "\\{" if piece["brace"] else piece[0]


def _escape(escape: str) -> str:
    r"""`\<` and `\_` stand for the character, `\cA` and `\0` for a control character; all else is the same."""
    letter = escape[1]
    if letter in "<>_" or not letter.isascii():
        return letter
    if letter == "c" and len(escape) == 3:
        return f"\\x{ord(escape[2]) % 32:02x}"
    return r"\x00" if letter == "0" else escape


def _class(text: str) -> str:
    """Take what is an operator inside a class in the other dialect for the characters it is."""
    if text in ("[]", "[^]"):
        return r"[^\s\S]" if text == "[]" else r"[\s\S]"
    start = 2 if text.startswith("[^") else 1
    members = (
        _escape(member[0])
        if member["escape"]
        else re.sub(r"(.)", r"\\\1", member[0])
        if member["operator"]
        else member[0]
        for member in _CLASS_MEMBER.finditer(text[start:-1])
    )
    return text[:start] + "".join(members) + "]"


def _top_level(pattern: str) -> str:
    """Return the characters outside of groups and classes."""
    depth = 0
    outside: list[str] = []
    for piece in _PIECE.finditer(pattern):
        depth += (piece[0] == "(") - (piece[0] == ")")
        if depth == 0 and piece["text"]:
            outside.append(piece[0])
    return "".join(outside)


def _group_end(pattern: str) -> int:
    """Return the index of the bracket that closes the group at the start; the last index if none does."""
    depth = 0
    for piece in _PIECE.finditer(pattern):
        depth += (piece[0] == "(") - (piece[0] == ")")
        if depth == 0:
            return piece.start()
    return len(pattern) - 1
