"""transformers' own `generate`, as a user without an engine would run the same model: greedy, bfloat16."""

import time
from pathlib import Path
from typing import Any

import torch


class TransformersPeer:
    """A model loaded by transformers from the same folder."""

    def __init__(self, folder: Path, device: str) -> None:
        from transformers import AutoModelForCausalLM

        # Any: what the stubs say of `to` and `generate` does not fit the classes they belong to.
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, local_files_only=True)
        self._model = model.to(device).eval()

    def decode_seconds(self, prompt: list[int], num_tokens: int) -> float:
        """Return how long `num_tokens` tokens take after the first: a long generation less one that ends there."""
        return self._generate_seconds(prompt, num_tokens + 1) - self._generate_seconds(prompt, 1)

    def prefill_seconds(self, prompt: list[int]) -> float:
        """Return how long a prompt takes up to its first token."""
        return self._generate_seconds(prompt, 1)

    def _generate_seconds(self, prompt: list[int], num_tokens: int) -> float:
        input_ids = torch.tensor([prompt], device=self._model.device)
        start = time.perf_counter()
        self._model.generate(
            input_ids,
            attention_mask=torch.ones_like(input_ids),
            max_new_tokens=num_tokens,
            min_new_tokens=num_tokens,
            do_sample=False,
        ).cpu()
        return time.perf_counter() - start
