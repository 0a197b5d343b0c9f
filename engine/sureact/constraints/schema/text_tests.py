"""What `pattern` and `format` ask of a string: one answer for guards and judge, in linear time."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from sureact.constraints.llguidance_matcher import new_matcher
from sureact.constraints.schema.ecma_pattern import pattern_parts
from sureact.errors import ConstraintStateError

if TYPE_CHECKING:
    from jsonschema import FormatChecker
    from llguidance import LLMatcher

_MAX_CACHED_LEN = 256
_LEXER_FUEL = 20_000_000
"""Twenty times that of a grammar: here no mask is computed on the way, which would give new fuel."""
_QUOTE = [ord('"')]


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
    """Follows a text that grows, to know whether a pattern can occur in it."""

    def __init__(self, pattern: str) -> None:
        """Begin with the empty text.

        Args:
            pattern: one that `pattern_error` has nothing against.
        """
        parts = pattern_parts(pattern)
        self._required = [_matcher(part).deep_copy() for part in parts.required]
        self._forbidden = [_matcher(part).deep_copy() for part in parts.forbidden]
        self._consume(_QUOTE)

    def read(self, characters: str) -> bool:
        """Read on; False when the pattern cannot occur any more, then nothing can be read after."""
        # Spelled as JSON has it, but for DEL, which llguidance takes as an escape only.
        spelling = json.dumps(characters, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f")
        try:
            return self._consume(list(spelling.encode()))
        except UnicodeEncodeError:  # a lone surrogate is no text
            return False

    def end(self) -> bool:
        """End the text, and return whether the pattern occurs in it."""
        is_required = self._consume(_QUOTE) and all(matcher.is_accepting() for matcher in self._required)
        return is_required and not any(matcher.is_accepting() for matcher in self._forbidden)

    def _consume(self, tokens: list[int]) -> bool:
        """Read bytes; what cannot occur any more cannot be forbidden either."""
        self._forbidden = [matcher for matcher in self._forbidden if _reads(matcher, tokens)]
        return all(_reads(matcher, tokens) for matcher in self._required)


def _reads(matcher: LLMatcher, tokens: list[int]) -> bool:
    num_read = matcher.try_consume_tokens(tokens)
    if matcher.is_error():  # it is no mismatch then: nobody knows
        reason = matcher.get_error().split("\n")[0]
        raise ConstraintStateError(f"A regex of the schema takes too much to be tested on this text: {reason}.")
    return num_read == len(tokens)


def pattern_error(pattern: str) -> str:
    """Return why no automaton can test for `pattern`, or the empty text."""
    parts = pattern_parts(pattern)
    errors = (_matcher(part).get_error() for part in (*parts.required, *parts.forbidden))
    return next(filter(None, errors), "")


def format_holds(name: str, text: str) -> bool:
    """Whether `text` has the known format `name`."""
    return _format_checker().conforms(text, name)


@lru_cache(maxsize=4096)
def _occurs(pattern: str, text: str, is_open: bool) -> bool:
    reader = PatternReader(pattern)
    return reader.read(text) and (is_open or reader.end())


@lru_cache(maxsize=1024)
def _matcher(pattern: str) -> LLMatcher:
    from llguidance import LLMatcher

    from sureact.constraints.byte_matcher import byte_tokenizer

    grammar = LLMatcher.grammar_from_json_schema({"type": "string", "pattern": pattern})
    return new_matcher(byte_tokenizer(), grammar, lexer_fuel=_LEXER_FUEL)


@lru_cache(maxsize=1)
def _format_checker() -> FormatChecker:
    from jsonschema import Draft202012Validator

    return Draft202012Validator.FORMAT_CHECKER
