"""A vocabulary in the shape that llguidance asks of a tokenizer: which ids are text, and how a text is tokenized.

Control tokens are named and marked special, so that llguidance offers them only where a grammar names them. A text that
spells one (`"<tool_call>"` as the item of a choice) is tokenized as the text it is.
"""

from __future__ import annotations

import json
import re
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from sureact.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llguidance import LLTokenizer

    from sureact.tokens.vocabulary import Vocabulary

_ADDED_TOKENS = re.compile(r'"added_tokens"\s*:\s*(?=[\[n])')
"""The key, whose value is a list or null; inside a JSON string its quotes would be escaped."""

_CACHED_TEXTS = 4096
"""Forced texts whose tokens are remembered: they come again at each of their tokens, and in each call of a tool."""


def build_tokenizer(vocabulary: Vocabulary) -> LLTokenizer:
    """Return llguidance's view of a vocabulary.

    Raises:
        ConfigError: the vocabulary has no end-of-sequence id.
    """
    from llguidance import LLTokenizer, TokenizerWrapper

    if not vocabulary.eos_ids:
        raise ConfigError("The vocabulary has no end-of-sequence id, so a constrained text could never end.")
    return LLTokenizer(TokenizerWrapper(_TextTokenizer(vocabulary)), eos_token=list(vocabulary.eos_ids))


def control_token_id(tokenizer: LLTokenizer, name: str) -> int | None:
    """Return the id of the control token written `name`, or None when the tokenizer has no such token."""
    return _control_ids(tokenizer).get(name)


@lru_cache(maxsize=4)
def _control_ids(tokenizer: LLTokenizer) -> dict[str, int]:
    special_ids = filter(tokenizer.is_special_token, range(tokenizer.vocab_size))
    return {tokenizer.decode_str([token_id]): token_id for token_id in special_ids}


class _TextTokenizer:
    """Tokenizes text into text tokens only: with the model's own tokenizer, else the longest token first."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        added_tokens, text_only_json = _without_added_tokens(vocabulary.tokenizer_json or "")
        names = {entry["id"]: entry["content"].encode() for entry in added_tokens}
        self._not_text = vocabulary.control_ids | vocabulary.unused_ids | set(vocabulary.eos_ids)
        self._token_bytes = vocabulary.token_bytes
        self._encode = _encoder(text_only_json) if vocabulary.tokenizer_json is not None else None
        self.tokenize = lru_cache(_CACHED_TEXTS)(self._tokenize)
        self.eos_token_id = vocabulary.eos_ids[0]
        self.bos_token_id = None
        self.special_token_ids = sorted(self._not_text)
        self.tokens = [
            names.get(token_id, f"<[{token_id}]>".encode()) if token_id in self._not_text else token
            for token_id, token in enumerate(vocabulary.token_bytes)
        ]

    def __call__(self, text: str) -> Sequence[int]:
        """Tokenize; bytes that no token covers end the result."""
        return self.tokenize(text)

    def _tokenize(self, text: str) -> Sequence[int]:
        data = text.encode()
        if self._encode is not None:
            # Some tokenizers write a space before the first word; behind a NUL, which merges with nothing, they cannot.
            for token_ids in (self._encode(text), self._behind_nul(self._encode("\0" + text))):
                if self._spells(token_ids, data):
                    return token_ids
        return self._longest_tokens(data)  # a tokenizer that normalizes (NFC) has no tokens for what it would change

    def _behind_nul(self, token_ids: Sequence[int]) -> Sequence[int]:
        ends = [i for i, token_id in enumerate(token_ids) if self._spells([token_id], b"\0")]
        return token_ids[ends[0] + 1 :] if ends else ()

    def _spells(self, token_ids: Sequence[int], data: bytes) -> bool:
        is_text = all(i < len(self._token_bytes) and i not in self._not_text for i in token_ids)
        return is_text and b"".join(self._token_bytes[i] for i in token_ids) == data

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        texts = ((token, token_id) for token_id, token in enumerate(self._token_bytes) if token)
        return {token: token_id for token, token_id in texts if token_id not in self._not_text}

    @cached_property
    def _max_len(self) -> int:
        return max(map(len, self._ids), default=0)

    def _longest_tokens(self, data: bytes) -> Sequence[int]:
        token_ids: list[int] = []
        start = 0
        while start < len(data):
            ends = range(min(len(data), start + self._max_len), start, -1)
            end = next((end for end in ends if data[start:end] in self._ids), None)
            if end is None:
                break
            token_ids.append(self._ids[data[start:end]])
            start = end
        return token_ids


def _without_added_tokens(tokenizer_json: str) -> tuple[list[dict[str, Any]], str]:
    """Cut the added tokens out of a tokenizer; the megabytes around them are not parsed."""
    match = _ADDED_TOKENS.search(tokenizer_json)
    if match is None:
        return [], tokenizer_json
    added_tokens, end = json.JSONDecoder().raw_decode(tokenizer_json, match.end())
    return added_tokens or [], f"{tokenizer_json[: match.end()]}[]{tokenizer_json[end:]}"


def _encoder(tokenizer_json: str) -> Callable[[str], Sequence[int]]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(tokenizer_json)

    def encode(text: str) -> Sequence[int]:
        return tokenizer.encode(text, add_special_tokens=False).ids

    return encode
