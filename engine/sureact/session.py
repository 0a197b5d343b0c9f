"""A growing context on an engine: no token is rendered twice, no key or value computed twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sureact.errors import ConfigError, PromptTooLongError, SessionError
from sureact.outputs import StepOutput, StreamDelta
from sureact.tokens.chat_template import PromptText

if TYPE_CHECKING:
    from sureact.constraints.constraint import Constraint
    from sureact.engine import Engine
    from sureact.kv_cache.cached_sequence import CachedSequence
    from sureact.sampling_params import SamplingParams
    from sureact.scheduling.request import Request


class Session:
    """Token ids that only grow, but for an explicit `truncate` and the cut at a stop.

    Between two generations only the tokens appended since are computed. One generation at a time; `fork` for more.
    Made by `Engine.session`; usable as a context manager.
    """

    def __init__(self, engine: Engine, sequence: CachedSequence) -> None:
        self._engine = engine
        self._sequence = sequence
        self._is_closed = False
        self._is_busy = False

    @property
    def token_ids(self) -> list[int]:
        """A copy of all token ids of the context."""
        return list(self._sequence.token_ids)

    @property
    def num_cached_tokens(self) -> int:
        """Tokens whose keys and values are in the cache now; fewer than all after an eviction."""
        return self._sequence.num_cached

    def __len__(self) -> int:
        """Tokens in the context."""
        return len(self._sequence)

    def append(self, text: str | Sequence[int] | PromptText, *, parse_control_tokens: bool = False) -> int:
        """Add to the end of the context; nothing is computed yet.

        Args:
            text: text, token ids, or a prompt rendered by `Engine.render_chat`. A text must not end in a blank: the
                tokenizer joins a blank with the word after it, so the model would see a split it never saw.
            parse_control_tokens: whether `<|im_end|>` and the like in a text become control tokens.

        Returns:
            Tokens added.

        Raises:
            ConfigError: the text ends in a blank, or an id is not in the vocabulary.
            PromptTooLongError: the context is full.
            SessionError: the session is closed or generating.
        """
        self._require_idle()
        token_ids = self._engine.encode(text, parse_control_tokens=parse_control_tokens)
        total = len(self._sequence) + len(token_ids)
        if total >= self._engine.context_len:
            raise PromptTooLongError(
                f"The session would hold {total:,} tokens; this engine takes {self._engine.context_len:,} including at "
                "least one to generate. Truncate the session, or start the engine with a larger max_model_len."
            )
        self._sequence.token_ids += token_ids
        return len(token_ids)

    def generate(self, params: SamplingParams | None = None, constraint: Constraint | None = None) -> StepOutput:
        """Generate from the end of the context and keep what was generated in it.

        A stop cuts the context where it cuts the text (unless `include_stop`); end-of-sequence tokens do not stay.

        Args:
            params: how to pick tokens; greedy by default.
            constraint: what the text must look like, or None.

        Raises:
            PromptTooLongError: context and `max_tokens` exceed the context length.
            ConstraintError: the constraint cannot be compiled, or the model cannot go on under it.
            SessionError: the session is empty, closed or generating.
        """
        for delta in self.stream(params, constraint):
            if delta.output is not None:
                return delta.output
        raise SessionError("The generation ended without a result; the engine was closed.")

    def stream(
        self, params: SamplingParams | None = None, constraint: Constraint | None = None
    ) -> Iterator[StreamDelta]:
        """Like `generate`, piece by piece. Closing the iterator cancels; what was generated stays in the context."""
        self._require_idle()
        if not self._sequence.token_ids:
            raise SessionError("The session is empty. Append a prompt before generating.")
        request = self._engine.new_request(self._sequence, params, constraint)
        self._is_busy = True
        return self._deltas(request)

    def fork(self) -> Session:
        """Return a session with the same context that goes its own way; full cache blocks are shared."""
        self._require_idle()
        return Session(self._engine, self._engine.fork_sequence(self._sequence))

    def truncate(self, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens.

        Raises:
            ConfigError: `num_tokens` is negative or more than there are.
        """
        self._require_idle()
        if not 0 <= num_tokens <= len(self._sequence):
            raise ConfigError(f"num_tokens is {num_tokens}; the session holds {len(self._sequence)} tokens.")
        self._engine.truncate_sequence(self._sequence, num_tokens)

    def close(self) -> None:
        """Give the cache blocks back. A closed session refuses everything but `close`."""
        if not self._is_closed:
            self._is_closed = True
            self._engine.remove_sequence(self._sequence)

    def __enter__(self) -> Self:
        """Enter a `with` block that closes the session."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the session."""
        self.close()

    def _deltas(self, request: Request) -> Iterator[StreamDelta]:
        try:
            with self._engine.running(request) as deltas:
                for delta in deltas:
                    yield self._with_leftover(request, delta) if delta.output is not None else delta
        finally:
            self._is_busy = False

    def _with_leftover(self, request: Request, delta: StreamDelta) -> StreamDelta:
        """Append the text between the last kept token and the cut, and add its ids to the output."""
        assert delta.output is not None
        if request.finished is None or not request.finished.leftover:
            return delta
        leftover_ids = self._engine.encode_leftover(request.finished.leftover)
        self._sequence.token_ids += leftover_ids
        return replace(delta, output=replace(delta.output, token_ids=(*delta.output.token_ids, *leftover_ids)))

    def _require_idle(self) -> None:
        if self._is_closed:
            raise SessionError("The session is closed. Open a new one with Engine.session().")
        if self._is_busy:
            raise SessionError("The session is generating. Finish or close its stream first, or fork() the session.")
