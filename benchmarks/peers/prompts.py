"""Prompts as token ids, the same for everybody."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from benchmarks.peers.work import JsonText

from sureact.errors import ConfigError
from sureact.evaluation.bench import random_prompt
from sureact.evaluation.tool_calls import tool_call_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sureact.tokens.chat_template import Message
    from sureact.tokens.tokenizer import Tokenizer

MAX_CALL_PROMPT_LEN = 1024
"""Tool calls with longer prompts are passed over: they would measure prefill."""


class Prompts:
    """Makes prompts with the tokenizer of a model.

    Args:
        tokenizer: of the model.
        schemas: where the tool calls come from; None for our own.

    Raises:
        ConfigError: the model has no chat template.
    """

    def __init__(self, tokenizer: Tokenizer, schemas: Path | None) -> None:
        if tokenizer.chat_template is None:
            raise ConfigError("The model has no chat template, so it can neither be asked for calls nor run agents.")
        self._tokenizer = tokenizer
        self._template = tokenizer.chat_template
        self._schemas = schemas

    def random(self, num_tokens: int, seed: int) -> list[int]:
        """Return random ordinary tokens."""
        return random_prompt(self._tokenizer.vocabulary, num_tokens, seed=seed)

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of messages."""
        return self._tokenizer.encode_prompt(self._template.render(messages))

    def calls(self, num_calls: int, max_tokens: int) -> list[JsonText]:
        """Return tool calls, taken evenly from all that there are."""
        num_taken = min(num_calls, len(self._calls))
        chosen = (self._calls[index * len(self._calls) // num_taken] for index in range(num_taken))
        return [JsonText(prompt, schema, max_tokens) for prompt, schema in chosen]

    @cached_property
    def _calls(self) -> list[tuple[list[int], str]]:
        """Prompts and schemas of all tool calls with short prompts."""
        calls = [(self.chat(task.messages), task.schema_text) for task in tool_call_tasks(self._schemas)]
        return [(prompt, schema) for prompt, schema in calls if len(prompt) <= MAX_CALL_PROMPT_LEN]
