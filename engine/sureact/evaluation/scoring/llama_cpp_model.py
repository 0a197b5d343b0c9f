"""llama.cpp as a language model for the loops: the GGUF file, greedy, under grammars that it makes of JSON schemas."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sureact.constraints.constraint import CompiledConstraint, Constraint
from sureact.errors import ConfigError, ConstraintCompileError, PromptTooLongError
from sureact.outputs import StepOutput, StepTimings, StreamDelta, TokenUsage
from sureact.tokens.chat_template import PromptText

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.outputs import FinishReason
    from sureact.sampling_params import SamplingParams
    from sureact.tokens.chat_template import Message
    from sureact.tokens.vocabulary import Vocabulary

MAX_CONTEXT_LEN = 8192
"""Holds every run here; a longer one would only take memory."""


@dataclass(frozen=True, slots=True)
class LlamaSchema(Constraint):
    """A JSON schema for llama.cpp's own converter."""

    schema_text: str

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> LlamaSchema:
        """Return the constraint of a schema."""
        return cls(json.dumps(schema))

    @property
    def cache_key(self) -> str:
        """The schema."""
        return f"llama.cpp:{self.schema_text}"

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Refuse: it is llama.cpp that compiles it.

        Raises:
            ConstraintCompileError: always.
        """
        raise ConstraintCompileError("A LlamaSchema is for llama.cpp only; use json_schema.")


class LlamaCppModel:
    """A `LanguageModel` over a GGUF file. Prompts are rendered by the engine's chat template, so all get the same."""

    def __init__(self, engine: LanguageModel, gguf: Path) -> None:
        """Load the file.

        Raises:
            ConfigError: it cannot be loaded.
        """
        import llama_cpp  # pyright: ignore[reportMissingImports]  an extra
        import torch

        self.library: Any = llama_cpp
        self.name = engine.name
        self.context_len = min(MAX_CONTEXT_LEN, engine.context_len)
        self._engine = engine
        self._grammars: dict[str, Any] = {}
        threads = torch.get_num_threads()  # as many as the engine takes
        if not gguf.is_file():
            raise ConfigError(f"{gguf} does not exist; name the GGUF file of {self.name} with --gguf FILE.")
        try:
            self.model: Any = self.library.Llama(
                str(gguf), n_ctx=self.context_len, n_threads=threads, n_threads_batch=threads, verbose=False
            )
        except ValueError as error:
            raise ConfigError(f"llama.cpp cannot load {gguf}: {error}.") from error

    def session(self) -> LlamaCppSession:
        """Open an empty session."""
        return LlamaCppSession(self)

    def render_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, object]] = (),
        add_generation_prompt: bool = True,
    ) -> PromptText:
        """Render messages as the engine does."""
        return self._engine.render_chat(messages, tools=tools, add_generation_prompt=add_generation_prompt)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text."""
        return len(self.ids_of(text, is_control=False))

    def ids_of(self, text: str, *, is_control: bool) -> list[int]:
        """Tokenize, without a beginning-of-sequence token."""
        return self.model.tokenize(text.encode(), add_bos=False, special=is_control)

    def text_of(self, token_ids: Sequence[int]) -> str:
        """Detokenize; control tokens have no text."""
        return self.model.detokenize(list(token_ids)).decode(errors="replace")

    def ends_text(self, token_id: int) -> bool:
        """Whether a token ends a text."""
        return self.library.llama_vocab_is_eog(self.model._model.vocab, token_id)

    def grammar(self, constraint: Constraint) -> Any:
        """Make a grammar, and see whether llama.cpp takes it: llama-cpp-python does not look, and would crash later.

        Raises:
            ConstraintCompileError: it does not take the schema.
        """
        assert isinstance(constraint, LlamaSchema)
        if constraint.schema_text not in self._grammars:
            self._grammars[constraint.schema_text] = self._new_grammar(constraint.schema_text)
        return self._grammars[constraint.schema_text]

    def _new_grammar(self, schema_text: str) -> Any:
        try:
            grammar = self.library.LlamaGrammar.from_json_schema(schema_text, verbose=False)
        except Exception as error:  # whatever its converter meets, it does not take the schema
            raise ConstraintCompileError(f"llama.cpp refuses the schema: {type(error).__name__}: {error}") from error
        vocab = self.model._model.vocab
        sampler = self.library.llama_sampler_init_grammar(vocab, grammar._grammar.encode(), grammar._root.encode())
        if not sampler:
            raise ConstraintCompileError("llama.cpp cannot parse the grammar that its converter made of the schema.")
        self.library.llama_sampler_free(sampler)
        return grammar


class _Cut(NamedTuple):
    """Where a stop ended a text."""

    token_ids: list[int]
    text: str
    stop: str | tuple[int, ...]


class LlamaCppSession:
    """A growing list of ids; llama.cpp keeps the keys and values of the longest prefix it has seen last."""

    def __init__(self, model: LlamaCppModel) -> None:
        self._model = model
        self.token_ids: list[int] = []
        self.num_cached_tokens = 0

    def append(self, text: str | Sequence[int] | PromptText, *, parse_control_tokens: bool = False) -> int:
        """Add to the context; return the number of tokens added.

        Raises:
            PromptTooLongError: it does not fit.
        """
        if isinstance(text, PromptText):
            ids = [id_ for span in text.spans for id_ in self._model.ids_of(span.text, is_control=span.is_control)]
        elif isinstance(text, str):
            ids = self._model.ids_of(text, is_control=parse_control_tokens)
        else:
            ids = list(text)
        if len(self.token_ids) + len(ids) >= self._model.context_len:
            raise PromptTooLongError(f"{len(self.token_ids) + len(ids)} tokens; at most {self._model.context_len}.")
        self.token_ids += ids
        return len(ids)

    def generate(self, params: SamplingParams, constraint: Constraint | None = None) -> StepOutput:
        """Generate greedily from the end of the context."""
        grammar = self._model.grammar(constraint) if constraint is not None else None
        num_prompt_tokens = len(self.token_ids)
        room = min(params.max_tokens, self._model.context_len - num_prompt_tokens - 1)
        ids: list[int] = []
        cut: _Cut | None = None
        finish_reason: FinishReason = "length"
        start = time.perf_counter()
        for token_id in self._model.model.generate(list(self.token_ids), temp=0.0, grammar=grammar):
            if self._model.ends_text(token_id):
                finish_reason = "stop"
                break
            ids.append(token_id)
            cut = self._cut(ids, params)
            if cut is not None or len(ids) >= room:
                break
        usage = TokenUsage(prompt_tokens=num_prompt_tokens, cached_tokens=0, completion_tokens=len(ids))
        kept = ids if cut is None else cut.token_ids
        self.token_ids += kept
        self.num_cached_tokens = len(self.token_ids)
        return StepOutput(
            text=self._model.text_of(ids) if cut is None else cut.text,
            token_ids=tuple(kept),
            finish_reason=finish_reason if cut is None else "stop",
            stop_reason=None if cut is None else cut.stop,
            usage=usage,
            timings=StepTimings(decode_s=time.perf_counter() - start),
        )

    def stream(self, params: SamplingParams, constraint: Constraint | None = None) -> Iterator[StreamDelta]:
        """Generate, and give all of it at once."""
        output = self.generate(params, constraint)
        yield StreamDelta(text=output.text, output=output)

    def truncate(self, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens."""
        del self.token_ids[num_tokens:]
        self.num_cached_tokens = min(self.num_cached_tokens, num_tokens)

    def close(self) -> None:
        """Nothing is held."""

    def _cut(self, ids: list[int], params: SamplingParams) -> _Cut | None:
        """Return the ids and the text up to a stop that the last id ended, or None."""
        for stop in params.stop_token_ids:
            if tuple(ids[-len(stop) :]) == tuple(stop):
                kept = ids if params.include_stop else ids[: -len(stop)]
                return _Cut(list(kept), self._model.text_of(kept), tuple(stop))
        text = self._model.text_of(ids)
        for stop in params.stop_texts:
            position = text.find(stop)
            if position >= 0:
                end = position + len(stop) if params.include_stop else position
                return _Cut(self._ids_up_to(ids, text[:end]), text[:end], stop)
        return None

    def _ids_up_to(self, ids: list[int], text: str) -> list[int]:
        """Return the ids of a beginning of their text: those that lie in it whole, and what is left over anew."""
        count = len(ids)
        while count and not text.startswith(self._model.text_of(ids[:count])):
            count -= 1
        rest = text[len(self._model.text_of(ids[:count])) :]
        return ids[:count] + (self._model.ids_of(rest, is_control=False) if rest else [])
