"""An engine in a process of its own: the verbs of `Engine`, none of its work in this process."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack, cast

from typing_extensions import override

from sureact.config import EngineConfig
from sureact.constraints.python_type import constraint_of
from sureact.engine_verbs import EngineVerbs
from sureact.errors import ConfigError
from sureact.execution.cpu_runtime import hand_over_interpreter_quickly
from sureact.isolation.channel import Channel
from sureact.isolation.messages import Generate, pack_constraint
from sureact.isolation.process_session import ProcessSession
from sureact.isolation.process_stream import Mailbox, ProcessStream
from sureact.outputs import RequestOutput, group_completions
from sureact.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

    from sureact.async_engine import EngineOptions
    from sureact.config import ResolvedConfig
    from sureact.execution.engine_stats import EngineStats
    from sureact.sampling_params import SamplingParams
    from sureact.saved_session import SessionOrigin
    from sureact.tokens.prompt_encoder import Prompt


class EngineProcess(EngineVerbs):
    """An `Engine`, which describes each verb, in a process of its own. Safe to call from many threads.

    Python threads that compute slow an engine in their process down to a crawl: take this one where many agents run
    beside tools, or beside other Python, that do. Prompts are tokenized and constraints judge their texts here; the
    process has the weights and the cache. What is wrong with a request is raised when its stream is first read. If the
    process ends, all that waits and all later calls raise `WorkerLostError`.

    A constraint crosses as what it was made of; a `Constraint` class of your own must be importable there. Where the
    engine is forked with its program, it belongs to the program that opened it.
    """

    def __init__(
        self, model: str, *, progress: Callable[[str], None] | None = None, **options: Unpack[EngineOptions]
    ) -> None:
        """Start the process and load `model` in it; every option but `progress` is a field of `EngineConfig`.

        Raises:
            SureactError: see `Engine`.
            WorkerLostError: the process ended while it loaded the model.
        """
        channel = Channel(asdict(EngineConfig(model=model, **options)), progress)
        self.channel = channel
        """To the process; for sessions and streams."""
        # An engine that is forgotten, or still open when Python ends, closes as if asked to.
        weakref.finalize(self, channel.close)
        config, folder, num_logits = cast("tuple[ResolvedConfig, Path, int]", channel.loaded)
        super().__init__(config, Tokenizer(folder, num_logits=num_logits))
        self._session_ids = itertools.count(1)
        hand_over_interpreter_quickly()

    @property
    def process_id(self) -> int:
        """Of the engine's process."""
        return self.channel.process_id

    @property
    def is_open(self) -> bool:
        """Whether the process can be asked: it was not closed, and is not known to be lost."""
        return self.channel.fault is None

    @cached_property
    def session_origin(self) -> SessionOrigin:
        """What a saved session must have been made with."""
        return self.channel.ask("session_origin")

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        constraint: object = None,
        *,
        parse_control_tokens: bool = False,
        cache_salt: str | None = None,
    ) -> ProcessStream:
        """Generate after one prompt, piece by piece. Closing the stream cancels."""
        if params is not None and params.n != 1:
            raise ConfigError(f"n is {params.n}; a stream has one text. Call generate, or stream n times.")
        token_ids = self.encode_prompt(prompt, parse_control_tokens)
        return self._start(token_ids, params, constraint, is_streamed=True, completion_index=0, cache_salt=cache_salt)

    def session(self, *, cache_salt: str | None = None) -> ProcessSession:
        """Open an empty session; `cache_salt` as in `generate`.

        Raises:
            WorkerLostError: the process is gone.
            RequestAbortedError: the engine is closed.
        """
        if (fault := self.channel.fault) is not None:
            raise fault
        return ProcessSession(self, self.new_session_id(), cache_salt)

    def new_session_id(self) -> int:
        """Return a number that no session has."""
        return next(self._session_ids)

    def declare_public_prefix(self, prompt: Prompt, *, parse_control_tokens: bool = False) -> None:
        """Let requests of every `cache_salt` share the keys and values of this beginning."""
        self.channel.ask("declare_public_prefix", self.encode_prompt(prompt, parse_control_tokens))

    def clear_prefix_cache(self) -> None:
        """Forget the beginnings that prompts could share; sessions and running requests keep what they hold."""
        self.channel.ask("clear_prefix_cache")

    def stats(self) -> EngineStats:
        """What the engine did since it started."""
        return self.channel.ask("stats")

    @override
    def close(self) -> None:
        """End all requests and the process."""
        self.channel.close()

    def _start(
        self, token_ids: list[int], params: SamplingParams | None, constraint: object, **options: Any
    ) -> ProcessStream:
        asked_for = None if constraint is None else constraint_of(constraint)
        packed = pack_constraint(asked_for)
        return ProcessStream(
            self.channel,
            Mailbox(),
            lambda call_id: Generate(call_id, token_ids, params, packed, **options),
            asked_for,
            keep_alive=self,
        )

    @override
    def _generate_all(
        self, prompts: list[list[int]], params: SamplingParams | None, constraint: object, cache_salt: str | None
    ) -> list[RequestOutput]:
        num_completions = params.n if params is not None else 1
        streams: list[ProcessStream] = []
        try:
            for token_ids in prompts:
                for index in range(num_completions):
                    options = {"is_streamed": False, "completion_index": index, "cache_salt": cache_salt}
                    streams.append(self._start(token_ids, params, constraint, **options))
            outputs = [stream.read_output() for stream in streams]
        except BaseException:
            # All are told before one is waited for, so that all end with the same step.
            for stream in streams:
                stream.cancel()
            for stream in streams:
                stream.close()
            raise
        return group_completions(prompts, outputs)
