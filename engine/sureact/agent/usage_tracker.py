"""Tokens that modules took, by the model that gave them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sureact.outputs import TokenUsage


class UsageTracker:
    """Counts generations. May be used from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, dict[str, int]] = {}

    def add(self, model: str, usage: TokenUsage) -> None:
        """Count one generation."""
        counted = {
            "num_generations": 1,
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        }
        with self._lock:
            tokens = self._tokens.setdefault(model, dict.fromkeys(counted, 0))
            for name, value in counted.items():
                tokens[name] += value

    def total_tokens(self) -> dict[str, dict[str, int]]:
        """Return the counts of each model; `cached_tokens` is the part of `prompt_tokens` that was reused."""
        with self._lock:
            return {model: dict(tokens) for model, tokens in self._tokens.items()}
