"""What `pattern` and `format` ask of a string: one answer for guards and judge, in linear time."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sureact.constraints.llguidance_matcher import new_matcher
from sureact.constraints.schema.ecma_pattern import classes_of, pattern_parts, whole_text_pattern
from sureact.errors import ConstraintStateError

if TYPE_CHECKING:
    from jsonschema import FormatChecker
    from llguidance import LLMatcher

_MAX_CACHED_LEN = 256
_LEXER_FUEL = 20_000_000
"""Twenty times that of a grammar: here no mask is computed on the way, which would give new fuel."""
_START = [ord("^")]


def pattern_matches(pattern: str, text: str, *, is_open: bool = False) -> bool:
    """Whether `pattern` occurs in `text`, as JSON Schema has it: a search, of ECMA-262 syntax.

    Args:
        pattern: one that `pattern_error` has nothing against.
        text: decoded.
        is_open: ask whether it can still occur when the text goes on.
    """
    # A cache of long texts would be as long as they are.
    test = _occurs if len(text) <= _MAX_CACHED_LEN else _occurs.__wrapped__
    return test(pattern, text, is_open)


class PatternReader:
    """Follows a text that grows, to know whether a pattern can occur in it, and whether it must."""

    def __init__(self, pattern: str, *, sees_certainty: bool = False) -> None:
        """Begin with the empty text.

        Args:
            pattern: one that `pattern_error` has nothing against.
            sees_certainty: whether `is_certain` will be asked, which takes as much again.
        """
        parts = pattern_parts(pattern)
        self._required = [_Follower(_matcher(part)) for part in parts.required]
        self._forbidden = [_Follower(_matcher(part)) for part in parts.forbidden]
        without = parts.required if sees_certainty else ()
        self._without_required = [_Follower(_complement(part), may_give_up=True) for part in without]
        self._without_forbidden = [_Follower(_complement(part), may_give_up=True) for part in parts.forbidden]
        self._sees_certainty = sees_certainty

    @property
    def is_certain(self) -> bool:
        """Whether the pattern occurs whatever comes; False also where that is not known."""
        is_open = any(follower.is_alive for follower in (*self._without_required, *self._forbidden))
        return self._sees_certainty and not is_open

    def read(self, characters: str) -> bool:
        """Read on; False when the pattern cannot occur any more, then nothing can be read after."""
        try:
            data = list(characters.encode())
        except UnicodeEncodeError:  # a lone surrogate is no text
            return False
        for follower in (*self._required, *self._forbidden, *self._without_required, *self._without_forbidden):
            follower.read(data)
        return all(follower.is_alive for follower in (*self._required, *self._without_forbidden))

    def end(self) -> bool:
        """End the text, and return whether the pattern occurs in it."""
        is_required = all(follower.is_accepting for follower in self._required)
        return is_required and not any(follower.is_accepting for follower in self._forbidden)


class _Follower:
    """A text on its way through a matcher.

    Attributes:
        is_alive: whether the text can go on such that it matches.
    """

    def __init__(self, matcher: LLMatcher, *, may_give_up: bool = False) -> None:
        """Begin with the empty text.

        Args:
            matcher: of `_START` and the text; not changed.
            may_give_up: whether to stay alive where the matcher cannot tell.
        """
        self.is_alive = True
        self._matcher = matcher.deep_copy()
        self._may_give_up = may_give_up
        self.read(_START)

    @property
    def is_accepting(self) -> bool:
        """Whether the text matches as it stands."""
        return self.is_alive and self._matcher.is_accepting()

    def read(self, data: list[int]) -> None:
        """Read bytes."""
        if not self.is_alive:
            return
        is_read = self._matcher.try_consume_tokens(data) == len(data)
        is_told = not self._matcher.is_error()  # if not, it is no mismatch
        if not is_told and not self._may_give_up:
            reason = self._matcher.get_error().split("\n")[0]
            raise ConstraintStateError(f"A regex of the schema takes too much to be tested on this text: {reason}.")
        self.is_alive = is_read or not is_told


def pattern_error(pattern: str) -> str:
    """Return why no automaton can test for `pattern`, or the empty text."""
    parts = pattern_parts(pattern)
    errors = (_matcher(part).get_error() for part in (*parts.required, *parts.forbidden))
    return next(filter(None, errors), "")


def is_exact_in_json(part: str) -> bool:
    """Whether the grammar for JSON strings of a part of `pattern_parts` has no string that `part` does not occur in.

    llguidance 1.9 takes the quote and the backslash into a class that has all control characters.
    """
    alone = [f"^{characters}$" for characters in classes_of(part)]
    return not any(
        pattern_error(pattern) == ""
        and pattern_matches(pattern, "\0")
        and not (pattern_matches(pattern, '"') and pattern_matches(pattern, "\\"))
        for pattern in alone
    )


def format_holds(name: str, text: str) -> bool:
    """Whether `text` has the known format `name`."""
    return _format_checker().conforms(text, name)


@lru_cache(maxsize=4096)
def _occurs(pattern: str, text: str, is_open: bool) -> bool:
    reader = PatternReader(pattern)
    return reader.read(text) and (is_open or reader.end())


@lru_cache(maxsize=1024)
def _matcher(part: str) -> LLMatcher:
    """Return a matcher of the texts that `part` occurs in."""
    return _text_matcher(f"/{_lark_regex(part)}/")


@lru_cache(maxsize=1024)
def _complement(part: str) -> LLMatcher:
    """Return a matcher of the texts that `part` does not occur in."""
    # The bytes that are no text do not match a regex either, and must not count.
    return _text_matcher(f"(~/{_lark_regex(part)}/ & /(?s:.*)/)")


def _lark_regex(part: str) -> str:
    from llguidance import regex_to_lark

    return regex_to_lark(whole_text_pattern(part), "dw")


def _text_matcher(terminal: str) -> LLMatcher:
    from sureact.constraints.byte_matcher import byte_tokenizer

    # After a first character it shows at once when there is no text at all.
    grammar = f'start: TEXT\nTEXT: "^" {terminal}\n'
    return new_matcher(byte_tokenizer(), grammar, lexer_fuel=_LEXER_FUEL)


@lru_cache(maxsize=1)
def _format_checker() -> FormatChecker:
    from jsonschema import Draft202012Validator

    return Draft202012Validator.FORMAT_CHECKER
