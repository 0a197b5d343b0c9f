"""The engine: a loaded model, its cache and its loop, behind a few verbs. Wiring only."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from typing_extensions import override

from sureact.config import Determinism, EngineConfig
from sureact.engine_verbs import EngineVerbs
from sureact.errors import ConfigError
from sureact.execution.engine_loop import EngineLoop
from sureact.execution.engine_stats import EngineStats
from sureact.execution.kv_transfer import LayerKV, read_kv, write_kv
from sureact.execution.loaded_model import load_model
from sureact.execution.sampler import Sampler
from sureact.execution.uninterrupted import uninterrupted
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.outputs import RequestOutput, StepOutput, group_completions
from sureact.sampling_params import SamplingParams
from sureact.saved_session import SessionOrigin
from sureact.scheduling.request import Request
from sureact.scheduling.request_factory import RequestFactory
from sureact.scheduling.scheduler import Scheduler
from sureact.session import Session
from sureact.stream import DeltaStream, judged_output
from sureact.tokens.prompt_encoder import Prompt
from sureact.weights.fingerprint import model_fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    from sureact.drafts.drafter import Drafter


class Engine(EngineVerbs):
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
        super().__init__(loaded.config, loaded.tokenizer)
        self.folder: Path = loaded.folder
        """Holds the files of the model."""
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
    def loop(self) -> EngineLoop:
        """What runs the requests; for sessions and other fronts of the engine."""
        return self._loop

    @cached_property
    def session_origin(self) -> SessionOrigin:
        """What a saved session must have been made with."""
        return SessionOrigin.of(self.config, model_fingerprint(self.folder))

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
        with uninterrupted(), self._loop.lock:
            self._cache.declare_public_prefix(token_ids)

    def clear_prefix_cache(self) -> None:
        """Forget the beginnings that prompts could share; sessions and running requests keep what they hold.

        Raises:
            RequestAbortedError: the engine is closed.
        """
        with self._loop.between_steps(), uninterrupted():
            self._cache.clear_prefix_cache()

    def stats(self) -> EngineStats:
        """What the engine did since it started."""
        return self._loop.stats

    @override
    def close(self) -> None:
        """End all requests and give the memory back."""
        self._loop.close()

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
        with uninterrupted(), self._loop.lock:
            return self._cache.fork(sequence)

    def truncate_sequence(self, sequence: CachedSequence, num_tokens: int) -> None:
        """Cut a sequence that no request works on."""
        with uninterrupted(), self._loop.lock:
            self._cache.truncate(sequence, num_tokens)

    def remove_sequence(self, sequence: CachedSequence, request: Request | None) -> None:
        """Cancel the request that works on a sequence, if any, and give the sequence's blocks back."""
        if request is not None:
            try:
                self._loop.abort(request)
            except BaseException:  # an interrupt, while the request still needs the blocks
                self._loop.forget(sequence)
                raise
        with uninterrupted(), self._loop.lock:
            self._cache.remove(sequence)

    def read_kv(self, sequence: CachedSequence) -> list[LayerKV]:
        """Copy the keys and values of a sequence that no request works on; see `kv_transfer.read_kv`."""
        return read_kv(self._loop, sequence)

    def write_kv(self, sequence: CachedSequence, layers: Sequence[LayerKV]) -> str:
        """Give a sequence keys and values, or say why that cannot be; see `kv_transfer.write_kv`."""
        return write_kv(self._loop, self._cache, sequence, layers)

    @override
    def _generate_all(
        self, prompts: list[list[int]], params: SamplingParams | None, constraint: object, cache_salt: str | None
    ) -> list[RequestOutput]:
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
