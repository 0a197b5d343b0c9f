"""What `pattern` and `format` ask of a string: one answer for guards and judge, in linear time."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jsonschema import FormatChecker
    from llguidance import LLMatcher


def pattern_matches(pattern: str, text: str, *, is_open: bool = False) -> bool:
    """Whether `pattern` occurs in `text`, as JSON Schema has it: a search, of ECMA-262 syntax.

    Args:
        pattern: one that `pattern_error` has nothing against.
        text: decoded.
        is_open: ask whether it can still occur when the text goes on.
    """
    return _occurs_later(pattern, text) if is_open else _occurs(pattern, text)


def pattern_error(pattern: str) -> str:
    """Return why no automaton can test for `pattern`, or the empty text."""
    return _matcher(pattern).get_error()


def format_holds(name: str, text: str) -> bool:
    """Whether `text` has the known format `name`."""
    return _format_checker().conforms(text, name)


@lru_cache(maxsize=4096)
def _occurs(pattern: str, text: str) -> bool:
    matcher, length = _after(pattern, json.dumps(text, ensure_ascii=False))
    return length and matcher.is_accepting()


@lru_cache(maxsize=4096)
def _occurs_later(pattern: str, text: str) -> bool:
    return _after(pattern, json.dumps(text, ensure_ascii=False)[:-1])[1]


def _after(pattern: str, json_text: str) -> tuple[LLMatcher, bool]:
    """Return the matcher after the text, and whether it took all of it."""
    matcher = _matcher(pattern).deep_copy()
    try:
        tokens = list(json_text.encode())
    except UnicodeEncodeError:  # a lone surrogate is no text
        return matcher, False
    return matcher, matcher.try_consume_tokens(tokens) == len(tokens)


@lru_cache(maxsize=1024)
def _matcher(pattern: str) -> LLMatcher:
    from llguidance import LLMatcher

    from sureact.constraints.byte_matcher import byte_tokenizer

    schema = {"type": "string", "pattern": pattern}
    return LLMatcher(byte_tokenizer(), LLMatcher.grammar_from_json_schema(schema), log_level=0)


@lru_cache(maxsize=1)
def _format_checker() -> FormatChecker:
    from jsonschema import Draft202012Validator

    return Draft202012Validator.FORMAT_CHECKER
