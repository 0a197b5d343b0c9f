"""What is wrong with a regex that cannot be used: what it asks for, and what to write instead."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sureact.constraints.byte_matcher import can_follow_long_text

if TYPE_CHECKING:
    from collections.abc import Callable

_FAULTS = (
    (
        "look-around",
        "it looks around inside the text, and a finite automaton cannot. Write out what may stand there, or check it "
        "when the text is finished.",
    ),
    (
        "backreferences",
        "it refers back to what a group matched (a backreference), and a finite automaton does not remember. Write out "
        "what may be repeated, or check it when the text is finished.",
    ),
    (
        "lookarounds not supported yet; Word",
        r"\b and \B ask what stands on both sides of a place, and a finite automaton knows only one. Write what may "
        "stand there, such as (?:^|[^A-Za-z0-9_]).",
    ),
    (
        "LF in regex",
        "(?m) lets ^ and $ stand for the ends of lines, and they are served for the ends of the text only. Leave the "
        r"flag out, and write \n where a line ends.",
    ),
    (
        "lookarounds not supported yet",
        "an anchor (^ or $) stands inside it, and is served at its ends only. Remove the anchor.",
    ),
)
"""A part of llguidance's error text, and what it means."""

_WRITTEN_LEN = 500
"""Written out, a regex of this length is followed through every text; a longer one may be."""
_PIECE = re.compile(
    r"(?P<atom>\\(?:[pPux]\{[^}]*\}|.)|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])"
    r"|(?P<repeat>[*+?]|\{(?P<least>\d{1,9})(?:,(?P<most>\d{0,9}))?\})"
    r"|(?P<open>\((?:\?(?:P?<\w+>|[\w-]*:|<?[=!])?)?)"
    r"|(?P<close>\))"
    r"|(?P<text>.)",
    re.DOTALL,
)
_ANCHORS = "^$|"


def regex_fault(reason: str) -> str:
    """Turn the error that llguidance gives for a regex into what is at fault, and what to do."""
    for part, fault in _FAULTS:
        if part in reason:
            return fault
    lines = reason.splitlines()
    error = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), None)
    if error is None:
        return lines[0].split("(in regex): ")[-1]
    return f"it is malformed{_marked(lines)}: {error}. Correct it."


def repeated_repeat(pattern: str) -> str | None:
    """Return the first repeat in `pattern` of what is a repeat already; dialects differ in what it means."""
    before, is_lazy = "", False
    for piece in _PIECE.finditer(pattern):
        repeat = piece["repeat"] or ""
        if repeat and before and (repeat != "?" or is_lazy):
            return before + repeat
        is_lazy = bool(repeat and before)
        before = repeat and before + repeat
    return None


def size_fault(pattern: str, grammar_of: Callable[[str], str]) -> str:
    """Return why long texts cannot be followed, or the empty text.

    Args:
        pattern: the regex.
        grammar_of: writes the grammar of the texts that it matches, which llguidance takes.
    """
    is_small = "{" not in pattern or written_len(pattern) <= _WRITTEN_LEN
    if is_small or can_follow_long_text(grammar_of(pattern)):
        return ""
    return (
        "what it counts is too much to be followed through a long text: counts multiply where one group is inside "
        "another, or where a text may begin before the match. Lower them, or write * or + and limit the length of the "
        "whole text."
    )


def written_len(pattern: str) -> int:
    """Return the number of characters that a regex has places for, each repeat at its most and `+` once."""
    totals = [0]
    last = 0
    for piece in _PIECE.finditer(pattern):
        if piece["open"]:
            totals.append(0)
        elif piece["close"] and len(totals) > 1:
            last = totals.pop()
            totals[-1] += last
        elif piece["least"]:
            count = max(int(piece["most"] or piece["least"]), 1)
            totals[-1] += last * (count - 1)
            last *= count
        elif not piece["repeat"] and piece[0] not in _ANCHORS:
            last = 1
            totals[-1] += last
    return sum(totals)


def _marked(lines: list[str]) -> str:
    """Return what the carets of llguidance's error point at, in words."""
    index = next((index for index, line in enumerate(lines) if set(line) == {" ", "^"}), 0)
    if not index:
        return ""
    caret = re.search(r"\^+", lines[index])
    marked = lines[index - 1][caret.start() : caret.end()] if caret else ""
    return f" at {marked!r}" if marked else ""
