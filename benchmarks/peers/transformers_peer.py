"""transformers' own `generate`, as a user without an engine would run the same model: greedy, bfloat16.

JSON under a schema comes from outlines' logits processors.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

from benchmarks.peers.contestant import GeneratedIds, IdContestant, SchemaRefusedError
from typing_extensions import override

from sureact.outputs import StepTimings

if TYPE_CHECKING:
    from pathlib import Path


class TransformersPeer(IdContestant):
    """A model loaded by transformers from the same folder; the keys and values of a shared prefix are kept."""

    def __init__(self, folder: Path, num_threads: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
        from transformers.utils import logging

        logging.disable_progress_bar()
        torch.set_num_threads(num_threads)
        # Any: what the stubs say of these does not fit the classes they belong to.
        self._model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, local_files_only=True)
        self._model.eval()
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        eos = self._model.generation_config.eos_token_id or self._tokenizer.eos_token_id
        self._eos_ids: list[int] = eos if isinstance(eos, list) else [eos]
        self._new_cache: Any = DynamicCache
        self._cache: Any = DynamicCache()
        self._cached_ids: list[int] = []
        self._outlines: Any = None
        self._processors: dict[str, Any] = {}

    @override
    def generate(self, prompt: list[int], max_tokens: int, *, schema: str | None = None) -> GeneratedIds:
        """Generate with `model.generate` on the cache of the last call, cut to what the two prompts share."""
        import torch

        processors: list[Any] = []
        if schema is not None:
            self.compile_schema(schema)
            processors = [self._processors[schema]]
            processors[0].reset()
        self._keep_shared_prefix(prompt)
        clock = _Clock()
        with warnings.catch_warnings():
            # transformers 5.24 calls it `cache`, which 5.10 does not know.
            warnings.filterwarnings("ignore", message=".*past_key_values", category=FutureWarning)
            out = self._model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                past_key_values=self._cache,
                max_new_tokens=max_tokens,
                min_new_tokens=max_tokens if schema is None else None,
                logits_processor=processors,
                streamer=clock,
                eos_token_id=self._eos_ids,
                do_sample=False,
            )
        self._cached_ids = out[0, :-1].tolist()
        token_ids = out[0, len(prompt) :].tolist()
        return GeneratedIds(token_ids, schema is not None and token_ids[-1] in self._eos_ids, clock.timings)

    @override
    def compile_schema(self, schema: str) -> None:
        """Build the index that outlines' default backend makes of a schema."""
        if schema in self._processors:
            return
        import outlines
        from outlines.backends import get_json_schema_logits_processor

        self._outlines = self._outlines or outlines.from_transformers(self._model, self._tokenizer)
        try:
            self._processors[schema] = get_json_schema_logits_processor(None, self._outlines, schema)
        except Exception as error:  # whatever it meets, it does not take the schema
            raise SchemaRefusedError(f"{type(error).__name__}: {error}") from error

    @override
    def ids_of(self, text: str) -> list[int]:
        """Tokenize."""
        return self._tokenizer(text, add_special_tokens=False).input_ids

    @override
    def text_of(self, token_ids: list[int]) -> str:
        """Detokenize; control tokens have no text."""
        return self._tokenizer.decode(token_ids, skip_special_tokens=True)

    def _keep_shared_prefix(self, prompt: list[int]) -> None:
        """Cut the cache to the ids it shares with a prompt, of which at least one must be computed."""
        shared = 0
        for cached, wanted in zip(self._cached_ids, prompt[:-1], strict=False):
            if cached != wanted:
                break
            shared += 1
        if not shared:
            self._cache = self._new_cache()
        elif shared < len(self._cached_ids):
            self._cache.crop(shared - len(self._cached_ids))


class _Clock:
    """Notes when ids come: a streamer gets the prompt first and then each token."""

    def __init__(self) -> None:
        self._times: list[float] = []

    def put(self, value: object) -> None:
        self._times.append(time.perf_counter())

    def end(self) -> None:
        pass

    @property
    def timings(self) -> StepTimings:
        prompt, first, last = self._times[0], self._times[1], self._times[-1]
        return StepTimings(prefill_s=first - prompt, decode_s=last - first)
