"""The engine: a loaded model, its cache and its loop, behind a few verbs. Wiring only."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import ExitStack
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
from sureact.outputs import RequestOutput
from sureact.sampling_params import SamplingParams, has_surrogate
from sureact.scheduling.request import Request
from sureact.scheduling.scheduler import Scheduler
from sureact.session import Session
from sureact.stream import DeltaStream
from sureact.tokens.chat_template import Message, PromptText

if TYPE_CHECKING:
    from sureact.tokens.vocabulary import Vocabulary

Prompt = str | Sequence[int] | PromptText
"""Text, token ids, or a prompt rendered by `Engine.render_chat`."""

Prompts = list[str] | list[list[int]] | list[PromptText]
"""Several of them."""


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
        max_rollbacks: int = 256,
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
                max_rollbacks=max_rollbacks,
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
        # An engine that is forgotten, or still open when Python ends, closes as if asked to.
        weakref.finalize(self, self._loop.close)

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

    @property
    def has_chat_template(self) -> bool:
        """Whether the model says how a chat is written."""
        return self._tokenizer.chat_template is not None

    @overload
    def generate(
        self,
        prompt: Prompts,
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
        prompt: Prompt | Prompts,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
    ) -> RequestOutput | list[RequestOutput]:
        """Generate after one prompt, or after each of a list of them, which are computed together.

        Args:
            prompt: a prompt, or a list of prompts.
            params: how to pick tokens; greedy by default.
            constraint: a `Constraint`, a Python type or an outlines type that the text must match, or None.
            parse_control_tokens: whether `<|im_end|>` and the like in a text become control tokens.

        Raises:
            ConfigError: a prompt is empty.
            PromptTooLongError: a prompt and `max_tokens` exceed the context length.
            ConstraintError: the constraint cannot be compiled, or the model cannot go on under it.
        """
        if _is_list(prompt):
            prompts = [self.encode_prompt(item, parse_control_tokens) for item in prompt]
            return self._generate_all(prompts, params, constraint)
        return self._generate_all([self.encode_prompt(prompt, parse_control_tokens)], params, constraint)[0]

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
    ) -> DeltaStream:
        """Generate after one prompt, piece by piece. Closing the stream cancels.

        Nothing that was streamed is taken back: text that a constraint could still refuse as a whole is held back.

        Raises:
            ConfigError: the prompt is empty, or `n` is above 1.
            PromptTooLongError: the prompt and `max_tokens` exceed the context length.
            ConstraintError: the constraint cannot be compiled, or the model cannot go on under it.
        """
        if params is not None and params.n != 1:
            raise ConfigError(f"n is {params.n}; a stream has one text. Call generate, or stream n times.")
        sequence = CachedSequence(self.encode_prompt(prompt, parse_control_tokens))
        return self.start(self.new_request(sequence, params, constraint, owns_sequence=True))

    def chat(
        self, messages: Sequence[Message], params: SamplingParams | None = None, constraint: object = None
    ) -> RequestOutput:
        """Generate the assistant's next message with the model's chat template."""
        return self._generate_all([self.encode(self.render_chat(messages))], params, constraint)[0]

    def session(self) -> Session:
        """Open an empty session."""
        sequence = CachedSequence()
        with self._loop.lock:
            self._cache.add(sequence)
        return Session(self, sequence)

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
            if has_surrogate(text):
                raise ConfigError("The text holds half of a surrogate pair, which has no UTF-8 spelling. Replace it.")
            if text.endswith(" "):
                raise ConfigError(
                    f"The text ends in a blank: {text[-40:]!r}. The tokenizer joins a blank with the word after it, "
                    "so the model would see a split it never saw. Strip it; a newline is fine."
                )
            return self._tokenizer.encode(text, parse_control_tokens=parse_control_tokens)
        if not isinstance(text, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may have no types
            raise ConfigError(f"The prompt is {text!r}; it must be text, token ids, or what render_chat returns.")
        return self._checked_ids(text)

    def encode_prompt(self, prompt: Prompt, parse_control_tokens: bool) -> list[int]:
        """Token ids of a whole prompt, which must not be empty."""
        token_ids = self.encode(prompt, parse_control_tokens=parse_control_tokens)
        if not token_ids:
            raise ConfigError("The prompt is empty. Give at least one token.")
        return token_ids

    def new_request(
        self,
        sequence: CachedSequence,
        params: SamplingParams | None,
        constraint: object,
        *,
        index: int = 0,
        owns_sequence: bool = False,
    ) -> Request:
        """Check and compile what is asked of `sequence`.

        Args:
            sequence: the tokens to generate after.
            params: how to pick tokens; greedy by default.
            constraint: see `generate`.
            index: tells the `n` completions of a prompt apart.
            owns_sequence: whether the sequence goes with the request.

        Raises:
            ConfigError, PromptTooLongError, ConstraintError: see `generate`.
        """
        params = self._with_control_stops(params or SamplingParams())
        if index and params.seed is not None:
            params = replace(params, seed=params.seed + index)
        self._check_length(len(sequence), params)
        for stop in params.stop_token_ids:
            self._checked_ids(stop)
        asked_for = None if constraint is None else constraint_of(constraint)
        if asked_for is not None:
            _check_constrained(params)
        penalty = params.repetition_penalty
        return Request(
            sequence,
            params,
            self.vocabulary,
            self._tokenizer.encode,
            asked_for and asked_for.compile(self.vocabulary).new_state(),
            asked_for and asked_for.parse,
            owns_sequence=owns_sequence,
            max_rollbacks=self.config.max_rollbacks,
            repetition_penalty=self._repetition_penalty if penalty is None else penalty,
        )

    def start(self, request: Request) -> DeltaStream:
        """Run a request and return its deltas.

        Raises:
            RequestAbortedError: the engine is closed.
        """
        return DeltaStream(self._loop, request, keep_alive=self)

    def is_running(self, request: Request) -> bool:
        """Whether a request is waiting or running."""
        return self._loop.holds(request)

    def fork_sequence(self, sequence: CachedSequence) -> CachedSequence:
        """Copy a sequence, sharing its full blocks."""
        with self._loop.lock:
            return self._cache.fork(sequence)

    def truncate_sequence(self, sequence: CachedSequence, num_tokens: int) -> None:
        """Cut a sequence that no request works on."""
        with self._loop.lock:
            self._cache.truncate(sequence, num_tokens)

    def remove_sequence(self, sequence: CachedSequence, request: Request | None) -> None:
        """Cancel the request that works on a sequence, if any, and give the sequence's blocks back."""
        if request is not None:
            self._loop.abort(request)
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
        requests = [
            self.new_request(CachedSequence(list(ids)), params, constraint, index=index, owns_sequence=True)
            for ids in prompts
            for index in range(num_completions)
        ]
        with ExitStack() as stack:
            streams = [stack.enter_context(self.start(request)) for request in requests]
            outputs = [stream.read_output() for stream in streams]
        return [
            RequestOutput(
                prompt_token_ids=tuple(token_ids),
                completions=tuple(outputs[i * num_completions : (i + 1) * num_completions]),
            )
            for i, token_ids in enumerate(prompts)
        ]

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
            if (
                type(token_id) is not int
                or not 0 <= token_id < vocabulary.num_logits
                or token_id in vocabulary.unused_ids
            ):
                raise ConfigError(
                    f"{token_id!r} is not a token id of {self.name}; ids go from 0 to {vocabulary.num_logits - 1}, "
                    f"{len(vocabulary.unused_ids)} of them unused."
                )
        return list(token_ids)


def _is_list(prompt: Prompt | Prompts) -> TypeIs[Prompts]:
    """Tell a list of prompts from a single prompt, which may be a list of token ids."""
    return isinstance(prompt, list) and not all(isinstance(item, int) for item in prompt)


def _check_constrained(params: SamplingParams) -> None:
    for name, is_set in (
        ("stop", bool(params.stop)),
        ("min_tokens", params.min_tokens > 0),
        ("ignore_eos", params.ignore_eos),
    ):
        if is_set:
            raise ConfigError(f"{name} cannot be combined with a constraint: the constraint says where the text ends.")
