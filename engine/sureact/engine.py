"""The engine: a loaded model, its cache and its loop, behind a few verbs. Wiring only."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, overload

from typing_extensions import TypeIs

from sureact.config import Determinism, EngineConfig, ResolvedConfig
from sureact.constraints.python_type import constraint_of
from sureact.errors import ConfigError, PromptTooLongError
from sureact.execution.engine_loop import EngineLoop, EngineStats
from sureact.execution.loaded_model import load_model
from sureact.execution.sampler import Sampler
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.outputs import RequestOutput, StepOutput, StreamDelta
from sureact.sampling_params import SamplingParams
from sureact.scheduling.request import Request
from sureact.scheduling.scheduler import Scheduler
from sureact.session import Session
from sureact.tokens.chat_template import Message, PromptText

if TYPE_CHECKING:
    from sureact.tokens.vocabulary import Vocabulary

Prompt = str | Sequence[int] | PromptText
"""Text, token ids, or a prompt rendered by `Engine.render_chat`."""


class Engine:
    """A model ready to generate. Safe to call from many threads: their requests are computed together."""

    def __init__(
        self,
        model: str,
        *,
        quantization: Literal["auto", "none", "int8", "int4"] = "auto",
        dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
        device: str = "auto",
        determinism: Determinism = "strict",
        max_model_len: int | None = None,
        kv_cache_gb: float | None = None,
        max_running_requests: int = 16,
        prefill_chunk_len: int | None = None,
        num_threads: int | None = None,
    ) -> None:
        """Load `model`; every option is a field of `EngineConfig`, which describes it.

        Raises:
            ConfigError: an option has a value that is not allowed.
            ModelNotFoundError: the model is not on this disk; the message names the command that gets it.
            UnsupportedModelError: the model needs something that is not served.
            CheckpointError: the model's files are damaged.
            OutOfMemoryError: the model does not fit.
        """
        loaded = load_model(
            EngineConfig(
                model=model,
                quantization=quantization,
                dtype=dtype,
                device=device,
                determinism=determinism,
                max_model_len=max_model_len,
                kv_cache_gb=kv_cache_gb,
                max_running_requests=max_running_requests,
                prefill_chunk_len=prefill_chunk_len,
                num_threads=num_threads,
            )
        )
        self.config: ResolvedConfig = loaded.config
        self._tokenizer = loaded.tokenizer
        self._repetition_penalty = loaded.repetition_penalty
        self._cache = loaded.cache
        scheduler = Scheduler(
            loaded.cache,
            max_running_requests=max_running_requests,
            prefill_chunk_len=self.config.prefill_chunk_len,
        )
        sampler = Sampler(self.vocabulary, max_rows=max_running_requests)
        self._loop = EngineLoop(scheduler, loaded.runner, sampler, loaded.cache)

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.config.model_name

    @property
    def context_len(self) -> int:
        """Most tokens a context can hold, generated ones included."""
        return self.config.max_model_len

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's token ids."""
        return self._tokenizer.vocabulary

    @overload
    def generate(
        self,
        prompt: list[str],
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
    ) -> list[RequestOutput]: ...

    @overload
    def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
    ) -> RequestOutput: ...

    def generate(
        self,
        prompt: Prompt | list[str],
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
    ) -> RequestOutput | list[RequestOutput]:
        """Generate after one prompt, or after each of a list of texts, which are computed together.

        Args:
            prompt: a prompt, or a list of texts.
            params: how to pick tokens; greedy by default.
            constraint: a `Constraint`, a Python type or an outlines type that the text must match, or None.
            parse_control_tokens: whether `<|im_end|>` and the like in a text become control tokens.

        Raises:
            ConfigError: a prompt is empty.
            PromptTooLongError: a prompt and `max_tokens` exceed the context length.
            ConstraintError: the constraint cannot be compiled, or the model cannot go on under it.
        """
        if _is_text_list(prompt):
            prompts = [self.encode_prompt(text, parse_control_tokens) for text in prompt]
            return self._generate_all(prompts, params, constraint)
        return self._generate_all([self.encode_prompt(prompt, parse_control_tokens)], params, constraint)[0]

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
    ) -> Iterator[StreamDelta]:
        """Generate after one prompt, piece by piece. Closing the iterator cancels.

        Raises:
            ConfigError: the prompt is empty, or `n` is above 1.
            PromptTooLongError: the prompt and `max_tokens` exceed the context length.
            ConstraintError: the constraint cannot be compiled, or the model cannot go on under it.
        """
        if params is not None and params.n != 1:
            raise ConfigError(f"n is {params.n}; a stream has one text. Call generate, or stream n times.")
        sequence = self._new_sequence(self.encode_prompt(prompt, parse_control_tokens))
        try:
            request = self.new_request(sequence, params, constraint)
        except BaseException:
            self.remove_sequence(sequence)
            raise
        return self._stream(request)

    def chat(
        self, messages: Sequence[Message], params: SamplingParams | None = None, constraint: object = None
    ) -> RequestOutput:
        """Generate the assistant's next message with the model's chat template."""
        return self._generate_all([self.encode(self.render_chat(messages))], params, constraint)[0]

    def session(self) -> Session:
        """Open an empty session."""
        return Session(self, self._new_sequence([]))

    def stats(self) -> EngineStats:
        """What the engine did since it started."""
        return self._loop.stats

    def close(self) -> None:
        """End all requests and give the memory back."""
        self._loop.close()

    def render_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, object]] = (),
        add_generation_prompt: bool = True,
    ) -> PromptText:
        """Render messages with the model's chat template; contents stay text whatever they hold.

        Raises:
            ConfigError: the model has no chat template, or the template refuses the messages.
        """
        template = self._tokenizer.chat_template
        if template is None:
            raise ConfigError(f"{self.name} has no chat template. Use generate with a prompt of your own.")
        return template.render(messages, tools, add_generation_prompt)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._tokenizer.encode(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids; control tokens have none."""
        return self._tokenizer.decode(token_ids)

    def encode(self, text: Prompt, *, parse_control_tokens: bool = False) -> list[int]:
        """Token ids of a prompt.

        Raises:
            ConfigError: a text ends in a blank, or an id is not in the vocabulary.
        """
        if isinstance(text, PromptText):
            return self._tokenizer.encode_prompt(text)
        if isinstance(text, str):
            if text.endswith(" "):
                raise ConfigError(
                    f"The text ends in a blank: {text[-40:]!r}. The tokenizer joins a blank with the word after it, "
                    "so the model would see a split it never saw. Strip it; a newline is fine."
                )
            return self._tokenizer.encode(text, parse_control_tokens=parse_control_tokens)
        return self._checked_ids(text)

    def encode_leftover(self, text: str) -> list[int]:
        """Token ids of the text between the last kept token and a stop, which may end in anything."""
        return self._tokenizer.encode(text)

    def encode_prompt(self, prompt: Prompt, parse_control_tokens: bool) -> list[int]:
        """Token ids of a whole prompt, which must not be empty."""
        token_ids = self.encode(prompt, parse_control_tokens=parse_control_tokens)
        if not token_ids:
            raise ConfigError("The prompt is empty. Give at least one token.")
        return token_ids

    def new_request(
        self, sequence: CachedSequence, params: SamplingParams | None, constraint: object, *, index: int = 0
    ) -> Request:
        """Check and compile what is asked of `sequence`; `index` tells the `n` completions of a prompt apart."""
        params = self._with_control_stops(params or SamplingParams())
        if index and params.seed is not None:
            params = replace(params, seed=params.seed + index)
        self._check_length(len(sequence), params)
        state = None
        if constraint is not None:
            _check_constrained(params)
            state = constraint_of(constraint).compile(self.vocabulary).new_state()
        penalty = params.repetition_penalty
        return Request(
            sequence,
            params,
            self.vocabulary,
            state,
            repetition_penalty=self._repetition_penalty if penalty is None else penalty,
        )

    @contextmanager
    def running(self, request: Request) -> Generator[Iterator[StreamDelta]]:
        """Run a request while the block lasts; leaving the block early cancels it."""
        self._loop.submit(request)
        try:
            yield request.deltas()
        finally:
            self._loop.abort(request)

    def fork_sequence(self, sequence: CachedSequence) -> CachedSequence:
        """Copy a sequence, sharing its full blocks."""
        with self._loop.lock:
            return self._cache.fork(sequence)

    def truncate_sequence(self, sequence: CachedSequence, num_tokens: int) -> None:
        """Cut a sequence that no request works on."""
        with self._loop.lock:
            self._cache.truncate(sequence, num_tokens)

    def remove_sequence(self, sequence: CachedSequence) -> None:
        """Give a sequence's blocks back."""
        with self._loop.lock:
            self._cache.remove(sequence)

    def __enter__(self) -> Self:
        """Enter a `with` block that closes the engine."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the engine."""
        self.close()

    def _generate_all(
        self, prompts: list[list[int]], params: SamplingParams | None, constraint: object
    ) -> list[RequestOutput]:
        """Submit every completion of every prompt at once, then collect them in order."""
        num_completions = params.n if params is not None else 1
        requests: list[Request] = []
        try:
            for token_ids in prompts:
                for index in range(num_completions):
                    sequence = self._new_sequence(list(token_ids))
                    requests.append(self.new_request(sequence, params, constraint, index=index))
            for request in requests:
                self._loop.submit(request)
            outputs = [_last_output(request) for request in requests]
        finally:
            self._end_all(requests)
        return [
            RequestOutput(
                prompt_token_ids=tuple(token_ids),
                completions=tuple(outputs[i * num_completions : (i + 1) * num_completions]),
            )
            for i, token_ids in enumerate(prompts)
        ]

    def _end_all(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self._loop.abort(request)
            self.remove_sequence(request.sequence)

    def _stream(self, request: Request) -> Iterator[StreamDelta]:
        try:
            with self.running(request) as deltas:
                yield from deltas
        finally:
            self.remove_sequence(request.sequence)

    def _new_sequence(self, token_ids: list[int]) -> CachedSequence:
        sequence = CachedSequence(token_ids)
        with self._loop.lock:
            self._cache.add(sequence)
        return sequence

    def _with_control_stops(self, params: SamplingParams) -> SamplingParams:
        """Let a stop that spells a control token match that token, which has no text of its own."""
        control_ids = self._tokenizer.control_tokens
        extra = [(control_ids[text],) for text in params.stop_texts if text in control_ids]
        return replace(params, stop=(*params.stop_texts, *params.stop_token_ids, *extra)) if extra else params

    def _check_length(self, num_tokens: int, params: SamplingParams) -> None:
        if num_tokens + params.max_tokens > self.context_len:
            raise PromptTooLongError(
                f"The prompt has {num_tokens:,} tokens; this engine takes {self.context_len:,} including "
                f"max_tokens={params.max_tokens:,}. Shorten the prompt or lower max_tokens."
            )

    def _checked_ids(self, token_ids: Sequence[int]) -> list[int]:
        vocabulary = self.vocabulary
        for token_id in token_ids:
            if not 0 <= token_id < vocabulary.num_logits or token_id in vocabulary.unused_ids:
                raise ConfigError(
                    f"{token_id} is not a token id of {self.name}; ids go from 0 to {vocabulary.num_logits - 1}, "
                    f"{len(vocabulary.unused_ids)} of them unused."
                )
        return list(token_ids)


def _is_text_list(prompt: Prompt | list[str]) -> TypeIs[list[str]]:
    """Tell a list of texts from a single prompt."""
    if isinstance(prompt, (str, PromptText)) or not any(isinstance(item, str) for item in prompt):
        return False
    if not all(isinstance(item, str) for item in prompt):
        raise ConfigError("A list of prompts must hold texts only; token ids make one prompt.")
    return True


def _check_constrained(params: SamplingParams) -> None:
    for name, is_set in (
        ("stop", bool(params.stop)),
        ("min_tokens", params.min_tokens > 0),
        ("ignore_eos", params.ignore_eos),
    ):
        if is_set:
            raise ConfigError(f"{name} cannot be combined with a constraint: the constraint says where the text ends.")


def _last_output(request: Request) -> StepOutput:
    for delta in request.deltas():
        if delta.output is not None:
            return delta.output
    raise AssertionError("a request ends with an output or an error")
