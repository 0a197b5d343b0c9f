"""llama.cpp through llama-cpp-python: the GGUF file, greedy, under the grammars that it makes of JSON schemas."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from benchmarks.peers.contestant import GeneratedIds, IdContestant, SchemaRefusedError
from typing_extensions import override

from sureact.outputs import StepTimings

if TYPE_CHECKING:
    from pathlib import Path

CONTEXT_LEN = 4096
"""Holds every prompt and run here; a longer context would only take memory."""


class LlamaCppPeer(IdContestant):
    """A GGUF file in llama.cpp. Its `generate` keeps the keys and values of the longest prefix that two prompts share.

    Raises:
        ImportError: llama-cpp-python is not installed.
    """

    def __init__(self, gguf: Path, num_threads: int) -> None:
        import llama_cpp  # pyright: ignore[reportMissingImports]  comes with the extra `bench` only

        self._library: Any = llama_cpp
        self._model: Any = self._library.Llama(
            str(gguf), n_ctx=CONTEXT_LEN, n_threads=num_threads, n_threads_batch=num_threads, verbose=False
        )
        self._vocab: Any = self._model._model.vocab
        self._grammars: dict[str, Any] = {}

    @override
    def generate(self, prompt: list[int], max_tokens: int, *, schema: str | None = None) -> GeneratedIds:
        """Generate with `Llama.generate`."""
        if schema is not None:
            self.compile_schema(schema)
        grammar = self._grammars[schema] if schema is not None else None
        token_ids: list[int] = []
        is_complete = False
        start = first = time.perf_counter()
        for token_id in self._model.generate(prompt, temp=0.0, grammar=grammar):
            if not token_ids:
                first = time.perf_counter()
            token_ids.append(token_id)
            is_complete = schema is not None and self._ends_text(token_id)
            if is_complete or len(token_ids) == max_tokens:
                break
        timings = StepTimings(prefill_s=first - start, decode_s=time.perf_counter() - first)
        return GeneratedIds(token_ids, is_complete, timings)

    @override
    def compile_schema(self, schema: str) -> None:
        """Make a grammar and see whether llama.cpp takes it: llama-cpp-python does not look, and would crash later."""
        if schema in self._grammars:
            return
        try:
            grammar = self._library.LlamaGrammar.from_json_schema(schema, verbose=False)
        except Exception as error:  # whatever its converter meets, it does not take the schema
            raise SchemaRefusedError(f"{type(error).__name__}: {error}") from error
        sampler = self._library.llama_sampler_init_grammar(
            self._vocab, grammar._grammar.encode(), grammar._root.encode()
        )
        if not sampler:
            raise SchemaRefusedError("llama.cpp cannot parse the grammar that llama-cpp-python made of it")
        self._library.llama_sampler_free(sampler)
        self._grammars[schema] = grammar

    @override
    def ids_of(self, text: str) -> list[int]:
        """Tokenize, without a beginning-of-sequence token."""
        return self._model.tokenize(text.encode(), add_bos=False)

    @override
    def text_of(self, token_ids: list[int]) -> str:
        """Detokenize; control tokens have no text."""
        return self._model.detokenize(token_ids).decode(errors="replace")

    @override
    def close(self) -> None:
        """Free the model."""
        self._model.close()

    def _ends_text(self, token_id: int) -> bool:
        return self._library.llama_vocab_is_eog(self._vocab, token_id)
