"""Whether a finished text matches a grammar, byte by byte and in linear time, with no model's vocabulary."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sureact.constraints.llguidance_matcher import new_matcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llguidance import LLTokenizer

_END = 256


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
