"""Keywords that nobody knows but that look like one that constrains values."""

from __future__ import annotations

from functools import cache

from sureact.constraints.schema.keywords import CONSTRAINTS

_CONSTRAINTS = CONSTRAINTS | {"nullable"}


def meant_keyword(keyword: str) -> str | None:
    """Return the constraining keyword that is one letter off from `keyword`, or differs only in the case of letters.

    One letter off: added, missing, wrong, or swapped with its neighbor. A mark before the word, as in `_format` or
    `@type`, is no slip.
    """
    if len(keyword) < 4 or len(keyword) > 25 or not (keyword[0].isalpha() or keyword[0] == "$"):
        return None
    shortened = _shortened_keywords()
    lowered = keyword.lower()
    for candidate in (lowered, *_without_one_letter(lowered)):
        if candidate in shortened:
            return shortened[candidate]
    return None


@cache
def _shortened_keywords() -> dict[str, str]:
    """Map each constraining keyword, and what is left of it without one letter, to the keyword.

    Two words are one letter off exactly if they are equal once at most one letter is taken from each, but for two
    letters deleted at different places, which is near enough.
    """
    shortened: dict[str, str] = {}
    for keyword in sorted(_CONSTRAINTS):
        if len(keyword) >= 4:
            shortened.update(dict.fromkeys(_without_one_letter(keyword.lower()), keyword))
    for keyword in sorted(_CONSTRAINTS):
        shortened[keyword.lower()] = keyword
    return shortened


def _without_one_letter(word: str) -> list[str]:
    return [word[:index] + word[index + 1 :] for index in range(len(word))]
