"""The engine for event loops: the verbs of `Engine`, awaitable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypedDict, Unpack, overload

from sureact.async_session import AsyncSession
from sureact.async_stream import AsyncDeltaStream, Attach
from sureact.async_workers import AsyncWorkers
from sureact.config import Determinism
from sureact.engine import Engine
from sureact.engine_verbs import Prompts, is_list_of_prompts
from sureact.errors import ConfigError
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.outputs import RequestOutput, group_completions
from sureact.tokens.chat_template import Message
from sureact.tokens.prompt_encoder import Prompt

if TYPE_CHECKING:
    from sureact.execution.engine_stats import EngineStats
    from sureact.sampling_params import SamplingParams


class EngineOptions(TypedDict, total=False):
    """The options of `Engine`; `EngineConfig` describes them."""

    quantization: Literal["auto", "none", "int8", "int4", "fp8"]
    dtype: Literal["auto", "float32", "bfloat16", "float16"]
    kv_cache_dtype: Literal["auto", "float8_e4m3"]
    device: str
    determinism: Determinism
    max_model_len: int | None
    kv_cache_gb: float | None
    max_running_requests: int
    prefill_chunk_len: int | None
    num_threads: int | None
    max_rollbacks: int
    max_draft_len: int | None
    prefix_cache: bool
    tensor_parallel_size: int
    cuda_graphs: bool


class AsyncEngine:
    """An `Engine`, which describes each verb, that never blocks an event loop.

    Requests of many tasks are computed together. Cancelling a task frees its request within one step.
    """

    def __init__(self, model: str, **options: Unpack[EngineOptions]) -> None:
        """Load `model`, which takes seconds; `AsyncEngine.of(await asyncio.to_thread(Engine, model))` does not block.

        Raises:
            SureactError: see `Engine`.
        """
        self._engine = Engine(model, **options)
        self._owns_engine = True
        self._workers = AsyncWorkers()

    @classmethod
    def of(cls, engine: Engine) -> Self:
        """Return a view of an engine, which others may use as well; `close` leaves it open."""
        view = cls.__new__(cls)
        view._engine = engine
        view._owns_engine = False
        view._workers = AsyncWorkers()
        return view

    @property
    def engine(self) -> Engine:
        """The engine itself, for all that does not wait: its name, its settings, counting and decoding tokens."""
        return self._engine

    @overload
    async def generate(
        self,
        prompt: Prompts,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
        cache_salt: str | None = None,
    ) -> list[RequestOutput]: ...

    @overload
    async def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
        cache_salt: str | None = None,
    ) -> RequestOutput: ...

    async def generate(
        self,
        prompt: Prompt | Prompts,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
        cache_salt: str | None = None,
    ) -> RequestOutput | list[RequestOutput]:
        """Generate after one prompt, or after each of a list of them, which are computed together."""
        if is_list_of_prompts(prompt):
            token_ids = await self._encode(prompt, parse_control_tokens)
            return await self._generate_all(token_ids, params, constraint, cache_salt)
        token_ids = await self._encode([prompt], parse_control_tokens)
        return (await self._generate_all(token_ids, params, constraint, cache_salt))[0]

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
        cache_salt: str | None = None,
    ) -> AsyncDeltaStream:
        """Generate after one prompt, piece by piece. Closing the stream cancels."""
        if params is not None and params.n != 1:
            raise ConfigError(f"n is {params.n}; a stream has one text. Call generate, or stream n times.")

        def submit(attach: Attach) -> None:
            token_ids = self._engine.encode_prompt(prompt, parse_control_tokens)
            self._submit(token_ids, params, constraint, cache_salt, 0, attach)

        return AsyncDeltaStream(self._engine, self._workers, submit)

    async def chat(
        self,
        messages: Sequence[Message],
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        cache_salt: str | None = None,
    ) -> RequestOutput:
        """Generate the assistant's next message with the model's chat template."""
        token_ids = await self._encode([self._engine.render_chat(messages)], parse_control_tokens=False)
        return (await self._generate_all(token_ids, params, constraint, cache_salt))[0]

    def session(self, *, cache_salt: str | None = None) -> AsyncSession:
        """Open an empty session."""
        return AsyncSession(self._engine, self._engine.session(cache_salt=cache_salt), self._workers)

    def stats(self) -> EngineStats:
        """What the engine did since it started."""
        return self._engine.stats()

    async def close(self) -> None:
        """End all requests and give the memory back. An engine that was given to `of` stays open."""
        try:
            if self._owns_engine:
                await self._workers.run(self._engine.close)
        finally:
            self._workers.close()

    async def __aenter__(self) -> Self:
        """Enter an `async with` block that closes the engine."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the engine."""
        await self.close()

    async def _encode(self, prompts: Sequence[Prompt], parse_control_tokens: bool) -> list[list[int]]:
        def encode() -> list[list[int]]:
            return [self._engine.encode_prompt(prompt, parse_control_tokens) for prompt in prompts]

        return await self._workers.run(encode)

    async def _generate_all(
        self, prompts: list[list[int]], params: SamplingParams | None, constraint: object, cache_salt: str | None
    ) -> list[RequestOutput]:
        """Start every completion of every prompt, and collect them in order; the first that fails ends the others."""
        num_completions = params.n if params is not None else 1
        streams = [
            AsyncDeltaStream(
                self._engine,
                self._workers,
                partial(self._submit, token_ids, params, constraint, cache_salt, index),
            )
            for token_ids in prompts
            for index in range(num_completions)
        ]
        try:
            for stream in streams:
                stream.start()
            outputs = await asyncio.gather(*(stream.read_output() for stream in streams))
        finally:
            for stream in streams:
                stream.cancel()
        return group_completions(prompts, outputs)

    def _submit(
        self,
        token_ids: list[int],
        params: SamplingParams | None,
        constraint: object,
        cache_salt: str | None,
        index: int,
        attach: Attach,
    ) -> None:
        sequence = CachedSequence(list(token_ids), cache_salt=cache_salt)
        request = self._engine.new_request(sequence, params, constraint, index=index, owns_sequence=True)
        attach(request)
        self._engine.loop.submit(request)
