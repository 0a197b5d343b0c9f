"""The vocabularies that texts are cut into tokens with: a model's, or the 256 bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sureact.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_END_ID = 256


@dataclass(frozen=True, slots=True)
class CaseVocabulary:
    """A vocabulary, and the way its tokenizer cuts a text."""

    vocabulary: Vocabulary
    encode: Callable[[str], list[int]]

    def num_bytes(self, token_ids: Iterable[int]) -> int:
        """Return the bytes that tokens stand for."""
        return sum(len(self.vocabulary.token_bytes[token_id]) for token_id in token_ids)


def byte_vocabulary() -> CaseVocabulary:
    """Return the 256 bytes and an end: every way to write a text is the only one."""
    vocabulary = Vocabulary(
        token_bytes=(*(bytes([value]) for value in range(256)), b""),
        control_ids=frozenset({_END_ID}),
        unused_ids=frozenset(),
        eos_ids=(_END_ID,),
        tokenizer_json=None,
        fingerprint="256 bytes and an end",
    )
    return CaseVocabulary(vocabulary, lambda text: list(text.encode()))


def read_case_vocabulary(model_folder: Path | None) -> CaseVocabulary:
    """Return the vocabulary of a model's folder; of None, the bytes.

    Raises:
        CheckpointError: the folder's files are damaged.
        UnsupportedModelError: its config or tokenizer is of a kind that is not served.
    """
    if model_folder is None:
        return byte_vocabulary()
    from sureact.tokens.tokenizer import Tokenizer
    from sureact.weights.model_config import read_model_config

    tokenizer = Tokenizer(model_folder, num_logits=read_model_config(model_folder).vocab_size)
    return CaseVocabulary(tokenizer.vocabulary, tokenizer.encode)
