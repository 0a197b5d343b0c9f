"""The engine: a loaded model, its cache and its loop, behind a few verbs. Wiring only."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, overload

from typing_extensions import TypeIs

from sureact.config import Determinism, EngineConfig, ResolvedConfig
from sureact.errors import ConfigError
from sureact.execution.engine_loop import EngineLoop
from sureact.execution.engine_stats import EngineStats
from sureact.execution.kv_transfer import LayerKV, read_kv, write_kv
from sureact.execution.loaded_model import load_model
from sureact.execution.sampler import Sampler
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.outputs import RequestOutput, StepOutput, group_completions
from sureact.sampling_params import SamplingParams
from sureact.saved_session import SessionOrigin
from sureact.scheduling.request import Request
from sureact.scheduling.request_factory import RequestFactory
from sureact.scheduling.scheduler import Scheduler
from sureact.session import Session
from sureact.stream import DeltaStream, judged_output
from sureact.tokens.chat_template import Message, PromptText
from sureact.tokens.prompt_encoder import Prompt, PromptEncoder
from sureact.weights.fingerprint import model_fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    from sureact.drafts.drafter import Drafter
    from sureact.tokens.vocabulary import Vocabulary

Prompts = list[str] | list[list[int]] | list[PromptText]
"""Several of them."""


class Engine:
    """A model ready to generate. Safe to call from many threads: their requests are computed together."""

    def __init__(
        self,
        model: str,
        *,
        quantization: Literal["auto", "none", "int8", "int4", "fp8"] = "auto",
        dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
        kv_cache_dtype: Literal["auto", "float8_e4m3"] = "auto",
        device: str = "auto",
        determinism: Determinism = "strict",
        max_model_len: int | None = None,
        kv_cache_gb: float | None = None,
        max_running_requests: int = 16,
        prefill_chunk_len: int | None = None,
        num_threads: int | None = None,
        max_rollbacks: int = 256,
        max_draft_len: int | None = None,
        prefix_cache: bool = True,
        tensor_parallel_size: int = 1,
        cuda_graphs: bool = True,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """Load `model`; every option but `progress` is a field of `EngineConfig`, which describes it.

        `progress` is told, in words, of each slow step of a first start, such as rounding to int4.

        Raises:
            ConfigError: an option has a value that is not allowed.
            ModelNotFoundError: the model is not on this disk; the message names the command that gets it.
            UnsupportedModelError: the model needs something that is not served.
            CheckpointError: the model's files are damaged.
            OutOfMemoryError: the model does not fit.
            WorkerLostError: one of several processes could not load its part.
        """
        loaded = load_model(
            EngineConfig(
                model=model,
                quantization=quantization,
                dtype=dtype,
                kv_cache_dtype=kv_cache_dtype,
                device=device,
                determinism=determinism,
                max_model_len=max_model_len,
                kv_cache_gb=kv_cache_gb,
                max_running_requests=max_running_requests,
                prefill_chunk_len=prefill_chunk_len,
                num_threads=num_threads,
                max_rollbacks=max_rollbacks,
                max_draft_len=max_draft_len,
                prefix_cache=prefix_cache,
                tensor_parallel_size=tensor_parallel_size,
                cuda_graphs=cuda_graphs,
            ),
            progress,
        )
        self.config: ResolvedConfig = loaded.config
        self.folder: Path = loaded.folder
        """Holds the files of the model."""
        self._tokenizer = loaded.tokenizer
        self._encoder = PromptEncoder(loaded.tokenizer, self.config.model_name)
        self._requests = RequestFactory(self.config, loaded.tokenizer, self._encoder, loaded.repetition_penalty)
        self._cache = loaded.cache
        scheduler = Scheduler(
            loaded.cache,
            max_running_requests=max_running_requests,
            prefill_chunk_len=self.config.prefill_chunk_len,
            has_prefix_cache=self.config.prefix_cache,
            reserves_ahead=loaded.runner.runs_ahead,
        )
        self._loop = EngineLoop(scheduler, loaded.runner, Sampler(self.vocabulary), loaded.cache)
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
    def loop(self) -> EngineLoop:
        """What runs the requests; for sessions and other fronts of the engine."""
        return self._loop

    @cached_property
    def session_origin(self) -> SessionOrigin:
        """What a saved session must have been made with."""
        return SessionOrigin.of(self.config, model_fingerprint(self.folder))

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
        cache_salt: str | None = None,
    ) -> list[RequestOutput]: ...

    @overload
    def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
        cache_salt: str | None = None,
    ) -> RequestOutput: ...

    def generate(
        self,
        prompt: Prompt | Prompts,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
        cache_salt: str | None = None,
    ) -> RequestOutput | list[RequestOutput]:
        """Generate after one prompt, or after each of a list of them, which are computed together.

        Args:
            prompt: a prompt, or a list of prompts.
            params: how to pick tokens; greedy by default.
            constraint: a `Constraint`, a Python type or an outlines type that the text must match, or None.
            parse_control_tokens: whether `<|im_end|>` and the like in a text become control tokens.
            cache_salt: prompts share cached beginnings only with those of the same salt, and with declared public
                prefixes, so that timing tells nothing of another's prompts.

        Raises:
            ConfigError: a prompt is empty.
            PromptTooLongError: a prompt and `max_tokens` exceed the context length.
            ConstraintError: the constraint cannot be compiled, or the model cannot go on under it.
        """
        if is_list_of_prompts(prompt):
            prompts = [self.encode_prompt(item, parse_control_tokens) for item in prompt]
            return self._generate_all(prompts, params, constraint, cache_salt)
        return self._generate_all([self.encode_prompt(prompt, parse_control_tokens)], params, constraint, cache_salt)[0]

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
        cache_salt: str | None = None,
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
        sequence = CachedSequence(self.encode_prompt(prompt, parse_control_tokens), cache_salt=cache_salt)
        return self.start(self.new_request(sequence, params, constraint, owns_sequence=True))

    def chat(
        self,
        messages: Sequence[Message],
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        cache_salt: str | None = None,
    ) -> RequestOutput:
        """Generate the assistant's next message with the model's chat template."""
        return self._generate_all([self.encode(self.render_chat(messages))], params, constraint, cache_salt)[0]

    def session(self, *, cache_salt: str | None = None) -> Session:
        """Open an empty session; `cache_salt` as in `generate`."""
        sequence = CachedSequence(cache_salt=cache_salt)
        self._loop.add_sequence(sequence)
        return Session(self, sequence, self._requests.new_drafter())

    def declare_public_prefix(self, prompt: Prompt, *, parse_control_tokens: bool = False) -> None:
        """Let requests of every `cache_salt` share the keys and values of this beginning: an operator's own prompt.

        It is shared in whole blocks of 128 tokens, and computed when a request first begins with it.
        """
        token_ids = self.encode_prompt(prompt, parse_control_tokens)
        with self._loop.lock:
            self._cache.declare_public_prefix(token_ids)

    def clear_prefix_cache(self) -> None:
        """Forget the beginnings that prompts could share; sessions and running requests keep what they hold.

        Raises:
            RequestAbortedError: the engine is closed.
        """
        with self._loop.between_steps():
            self._cache.clear_prefix_cache()

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
        variables: Mapping[str, object] | None = None,
    ) -> PromptText:
        """Render messages with the model's chat template; contents stay text whatever they hold.

        `variables` are further ones that the template knows, such as `enable_thinking`.

        Raises:
            ConfigError: the model has no chat template, or the template refuses the messages.
        """
        template = self._tokenizer.chat_template
        if template is None:
            raise ConfigError(f"{self.name} has no chat template. Use generate with a prompt of your own.")
        return template.render(messages, tools, add_generation_prompt, **(variables or {}))

    def count_tokens(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._tokenizer.encode(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids; control tokens have none."""
        return self._tokenizer.decode(token_ids)

    def encode(self, text: Prompt, *, parse_control_tokens: bool = False) -> list[int]:
        """Token ids of a prompt or of a piece of one.

        Raises:
            ConfigError: a text ends in a blank, or an id is not in the vocabulary.
        """
        return self._encoder.encode(text, parse_control_tokens=parse_control_tokens)

    def encode_prompt(self, prompt: Prompt, parse_control_tokens: bool) -> list[int]:
        """Token ids of a whole prompt, which must not be empty."""
        return self._encoder.encode_whole(prompt, parse_control_tokens=parse_control_tokens)

    def new_request(
        self,
        sequence: CachedSequence,
        params: SamplingParams | None,
        constraint: object,
        *,
        index: int = 0,
        owns_sequence: bool = False,
        drafter: Drafter | None = None,
    ) -> Request:
        """Check and compile what is asked of `sequence`; see `RequestFactory.new_request`."""
        return self._requests.new_request(
            sequence, params, constraint, index=index, owns_sequence=owns_sequence, drafter=drafter
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

    def read_kv(self, sequence: CachedSequence) -> list[LayerKV]:
        """Copy the keys and values of a sequence that no request works on; see `kv_transfer.read_kv`."""
        return read_kv(self._loop, sequence)

    def write_kv(self, sequence: CachedSequence, layers: Sequence[LayerKV]) -> str:
        """Give a sequence keys and values, or say why that cannot be; see `kv_transfer.write_kv`."""
        return write_kv(self._loop, self._cache, sequence, layers)

    def __enter__(self) -> Self:
        """Enter a `with` block that closes the engine."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the engine."""
        self.close()

    def _generate_all(
        self, prompts: list[list[int]], params: SamplingParams | None, constraint: object, cache_salt: str | None
    ) -> list[RequestOutput]:
        """Submit every completion of every prompt at once, then collect them in order."""
        num_completions = params.n if params is not None else 1
        requests = [
            self.new_request(
                CachedSequence(list(ids), cache_salt=cache_salt), params, constraint, index=index, owns_sequence=True
            )
            for ids in prompts
            for index in range(num_completions)
        ]
        try:
            for request in requests:
                self._loop.submit(request)
            outputs = [judged_output(self._loop, request, _last_output(request)) for request in requests]
        except BaseException:
            # All are told before one is waited for, so that all end with the same step.
            for end in (self._loop.cancel, self._loop.abort):
                for request in requests:
                    end(request)
            raise
        return group_completions(prompts, outputs)


def _last_output(request: Request) -> StepOutput:
    """Wait for the end of a request."""
    return next(delta.output for delta in request.deltas() if delta.output is not None)


def is_list_of_prompts(prompt: Prompt | Prompts) -> TypeIs[Prompts]:
    """Tell a list of prompts from a single prompt, which may be a list of token ids."""
    return isinstance(prompt, list) and not all(isinstance(item, int) for item in prompt)
