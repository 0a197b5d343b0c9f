"""Prompts in every spelling that callers may use, to token ids that a model may read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sureact.errors import ConfigError
from sureact.sampling_params import has_surrogate
from sureact.tokens.chat_template import PromptText

if TYPE_CHECKING:
    from sureact.tokens.tokenizer import Tokenizer

Prompt = str | Sequence[int] | PromptText
"""Text, token ids, or a prompt rendered by `Engine.render_chat`."""


class PromptEncoder:
    """Checks and tokenizes what a model is to read. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer, model_name: str) -> None:
        self._tokenizer = tokenizer
        self._model_name = model_name

    def encode(self, prompt: Prompt, *, parse_control_tokens: bool = False) -> list[int]:
        """Return the token ids of a prompt or of a piece of one.

        Raises:
            ConfigError: a text ends in a blank or has no UTF-8 spelling, or an id is not in the vocabulary.
        """
        if isinstance(prompt, PromptText):
            return self._tokenizer.encode_prompt(prompt)
        if isinstance(prompt, str):
            _check_text(prompt)
            return self._tokenizer.encode(prompt, parse_control_tokens=parse_control_tokens)
        if not isinstance(prompt, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may have no types
            raise ConfigError(f"The prompt is {prompt!r}; it must be text, token ids, or what render_chat returns.")
        return self.checked_ids(prompt)

    def encode_whole(self, prompt: Prompt, *, parse_control_tokens: bool = False) -> list[int]:
        """Return the token ids of a whole prompt, which must not be empty.

        Raises:
            ConfigError: see `encode`, or the prompt is empty.
        """
        token_ids = self.encode(prompt, parse_control_tokens=parse_control_tokens)
        if not token_ids:
            raise ConfigError("The prompt is empty. Give at least one token.")
        return token_ids

    def checked_ids(self, token_ids: Sequence[int]) -> list[int]:
        """Return a copy of ids that the model has.

        Raises:
            ConfigError: an id is not in the vocabulary.
        """
        vocabulary = self._tokenizer.vocabulary
        for token_id in token_ids:
            if (
                type(token_id) is not int
                or not 0 <= token_id < vocabulary.num_logits
                or token_id in vocabulary.unused_ids
            ):
                raise ConfigError(
                    f"{token_id!r} is not a token id of {self._model_name}; ids go from 0 to "
                    f"{vocabulary.num_logits - 1}, {len(vocabulary.unused_ids)} of them unused."
                )
        return list(token_ids)


def _check_text(text: str) -> None:
    if has_surrogate(text):
        raise ConfigError("The text holds half of a surrogate pair, which has no UTF-8 spelling. Replace it.")
    if text.endswith(" "):
        raise ConfigError(
            f"The text ends in a blank: {text[-40:]!r}. The tokenizer joins a blank with the word after it, "
            "so the model would see a split it never saw. Strip it; a newline is fine."
        )
