"""Whether a finished text matches a grammar, byte by byte and in linear time, with no model's vocabulary."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sureact.constraints.llguidance_matcher import new_matcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llguidance import LLTokenizer

_END = 256

_LONG_TEXT_LEN = 1_000
_TRIAL_FUEL = 35_000
"""What the lexer may take for a byte of a trial. A mask of a model's vocabulary takes more than one of bytes, as tokens
go far ahead: regexes that ran out of its 200,000 under the vocabulary of Qwen ran out of this, or of less, with bytes.
"""
_FIRST_CHOICES = b"a0"
_LAST_CHOICES = b'\\"'


class _Bytes:
    """The 256 bytes and an end-of-sequence token, in the shape that llguidance asks of a tokenizer."""

    eos_token_id = _END
    bos_token_id = None
    tokens: Sequence[bytes] = (*(bytes([value]) for value in range(256)), b"<end>")
    special_token_ids: Sequence[int] = (_END,)

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


@lru_cache(maxsize=1)
def byte_tokenizer() -> LLTokenizer:
    """Return the tokenizer whose tokens are the 256 bytes."""
    from llguidance import LLTokenizer, TokenizerWrapper

    return LLTokenizer(TokenizerWrapper(_Bytes()), eos_token=[_END])


def grammar_error(grammar: str) -> str:
    """Return why llguidance refuses `grammar`, or the empty text."""
    return new_matcher(byte_tokenizer(), grammar).get_error()


def has_text(grammar: str) -> bool:
    """Whether a text can begin under `grammar`; True also when llguidance refuses the grammar."""
    matcher = new_matcher(byte_tokenizer(), grammar)
    matcher.compute_bitmask()
    return not matcher.get_error().startswith("NoExtension")


def matches_grammar(grammar: str, text: str) -> bool:
    """Whether all of `text` matches; False also when llguidance refuses the grammar."""
    try:
        tokens = list(text.encode())
    except UnicodeEncodeError:  # a lone surrogate is no text
        return False
    matcher = new_matcher(byte_tokenizer(), grammar)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def can_follow_long_text(grammar: str) -> bool:
    """Whether a long text of a grammar can be followed within llguidance's limits; True also when it is refused."""
    from llguidance import LLMatcher, LLParserLimits

    limits = LLParserLimits(step_lexer_fuel=_TRIAL_FUEL)
    matcher = LLMatcher(byte_tokenizer(), grammar, log_level=0, limits=limits)
    if matcher.is_error():
        return True
    for _ in range(_LONG_TEXT_LEN):
        bitmask = matcher.compute_bitmask()
        token = next((byte for byte in _preferred_bytes() if bitmask[byte // 8] >> byte % 8 & 1), None)
        if matcher.is_error() or token is None or not matcher.consume_token(token):
            break
    return not matcher.is_error()


@lru_cache(maxsize=1)
def _preferred_bytes() -> bytes:
    """Return all bytes: first what repeats most often stand for, last what ends a JSON string."""
    others = bytes(byte for byte in range(_END) if byte not in _FIRST_CHOICES + _LAST_CHOICES)
    return _FIRST_CHOICES + others + _LAST_CHOICES
