"""Regexes of ECMA-262, the dialect of JSON Schema, in the dialect of the automata that test them.

An automaton cannot look around. Looking ahead at the start of a text it need not: `^(?!a)b` is a text that `^b` matches
and `^a` does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
_GROUP = re.compile(r"\((?:\?:|\?P?<\w+>|(?!\?))")
_FILLER = "(?s:.*)"
_MAX_ANCHORED_GROUPS = 8
"""Groups with anchors inside one another that are taken apart."""


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


def classes_of(part: str) -> list[str]:
    """Return the classes in brackets of a part of `pattern_parts`."""
    return [piece["class"] for piece in _PIECE.finditer(part) if piece["class"]]


def whole_text_pattern(part: str) -> str:
    """Return a regex for the whole texts that a part of `pattern_parts` occurs in.

    Anchors that stand neither at the start nor at the end stay, and are refused when it is compiled.
    """
    return _whole(part, _FILLER, _FILLER, _MAX_ANCHORED_GROUPS)


def _whole(part: str, before: str, after: str, num_groups: int) -> str:
    """Write `part` between fillers, or without one at a side where an anchor ends the text."""
    if not _has_anchor(part):
        return f"{before}(?:{part}){after}"
    branches = list(_branches(part)) if num_groups else [part]
    if len(branches) == 1 and num_groups:
        branches = _without_outer_group(part)
    if len(branches) > 1 or branches[0] != part:
        return "|".join(f"(?:{_whole(branch, before, after, num_groups - 1)})" for branch in branches)
    if part.startswith("^"):
        return _whole(part[1:], "", after, num_groups)
    if list(_PIECE.finditer(part))[-1][0] == "$":
        return _whole(part[:-1], before, "", num_groups)
    return f"{before}(?:{part}){after}"


def _has_anchor(pattern: str) -> bool:
    return any(piece["text"] in ("^", "$") for piece in _PIECE.finditer(pattern))


def _without_outer_group(part: str) -> list[str]:
    """Return the branches of a group with anchors at the start or the end, each with the rest of `part`."""
    for start, end in _groups(part):
        opening = _GROUP.match(part, start)
        before, after = part[:start], part[end + 1 :]
        is_outer = not before or (not after and not _has_anchor(before))
        if opening is None or not is_outer or after.startswith(("*", "+", "?", "{")):
            continue
        inside = part[opening.end() : end]
        if _has_anchor(inside):
            return [before + branch + after for branch in _branches(inside)]
    return [part]


def _groups(pattern: str) -> Iterator[tuple[int, int]]:
    """Yield where the groups that are in no other one begin and end."""
    depth = start = 0
    for piece in _PIECE.finditer(pattern):
        if piece[0] == "(":
            start = start if depth else piece.start()
            depth += 1
        elif piece[0] == ")":
            depth -= 1
            if depth == 0:
                yield start, piece.start()


def _branches(pattern: str) -> Iterator[str]:
    """Yield what stands between the bars outside of groups and classes."""
    depth = start = 0
    for piece in _PIECE.finditer(pattern):
        depth += (piece[0] == "(") - (piece[0] == ")")
        if depth == 0 and piece[0] == "|":
            yield pattern[start : piece.start()]
            start = piece.end()
    yield pattern[start:]


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
