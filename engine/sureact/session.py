"""A growing context on an engine: no token is rendered twice, no key or value computed twice."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sureact.errors import ConfigError, PromptTooLongError, SessionError
from sureact.outputs import StepOutput
from sureact.saved_session import SavedSession, read_session, write_session
from sureact.stream import DeltaStream
from sureact.tokens.chat_template import PromptText

if TYPE_CHECKING:
    from sureact.drafts.drafter import Drafter
    from sureact.engine import Engine
    from sureact.kv_cache.cached_sequence import CachedSequence
    from sureact.sampling_params import SamplingParams
    from sureact.scheduling.request import Request

_logger = logging.getLogger(__name__)


class Session:
    """Token ids that only grow, but for an explicit `truncate` and the cut at a stop.

    Between two generations only the tokens appended since are computed. One generation at a time; `fork` for more.
    Made by `Engine.session`; usable as a context manager.
    """

    def __init__(self, engine: Engine, sequence: CachedSequence, drafter: Drafter | None) -> None:
        self._engine = engine
        self._sequence = sequence
        self._drafter = drafter
        self._request: Request | None = None
        self._is_closed = False
        # Two threads must not both find the session idle.
        self._lock = threading.Lock()

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
        token_ids = self._engine.encode(text, parse_control_tokens=parse_control_tokens)
        with self._lock:
            self._require_idle()
            self._extend(token_ids)
        return len(token_ids)

    def generate(self, params: SamplingParams | None = None, constraint: object = None) -> StepOutput:
        """Generate from the end of the context and keep what was generated in it.

        A stop cuts the context where it cuts the text (unless `include_stop`); end-of-sequence tokens do not stay.

        Args:
            params: how to pick tokens; greedy by default.
            constraint: a `Constraint`, a Python type or an outlines type that the text must match, or None.

        Raises:
            PromptTooLongError: context and `max_tokens` exceed the context length.
            ConstraintError: the constraint cannot be compiled, or the model cannot go on under it.
            SessionError: the session is empty, closed or generating.
        """
        with self.stream(params, constraint) as deltas:
            return deltas.read_output()

    def stream(self, params: SamplingParams | None = None, constraint: object = None) -> DeltaStream:
        """Like `generate`, piece by piece. Closing the stream cancels; what was generated stays in the context.

        Raises:
            ConfigError: `n` is above 1: a session has one context. Fork it for more.
        """
        with self._lock:
            return self._engine.start(self._new_request(params, constraint))

    def submit(self, params: SamplingParams | None, constraint: object, attach: Callable[[Request], None]) -> None:
        """Start what `stream` starts, for a reader on an event loop.

        Args:
            params: see `generate`.
            constraint: see `generate`.
            attach: called with the request before it is submitted.
        """
        with self._lock:
            request = self._new_request(params, constraint)
            attach(request)
            self._engine.loop.submit(request)

    def fork(self) -> Session:
        """Return a session with the same context that goes its own way; blocks are shared until one of them writes."""
        with self._lock:
            self._require_idle()
            drafter = self._drafter and self._drafter.fork()
            return Session(self._engine, self._engine.fork_sequence(self._sequence), drafter)

    def truncate(self, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens.

        Raises:
            ConfigError: `num_tokens` is no whole number, negative or more than there are.
        """
        with self._lock:
            self._require_idle()
            held = len(self._sequence)
            if type(num_tokens) is not int or not 0 <= num_tokens <= held:
                raise ConfigError(
                    f"num_tokens is {num_tokens!r}; the session holds {held} tokens. Give a whole number up to that."
                )
            self._engine.truncate_sequence(self._sequence, num_tokens)

    def save(self, path: str | os.PathLike[str], *, with_kv: bool = False) -> None:
        """Write the context to a file, for `load` in a later session, in this process or another.

        Args:
            path: a safetensors file; one that is there is replaced once the new one is whole.
            with_kv: save the keys and values of cached tokens too, so that they need not be computed again. They take
                as much room as in the cache, such as 12 kB per token for a model of 0.5B.

        Raises:
            SessionError: the session is closed or generating, the file cannot be written, or the model runs in
                transformers, whose keys and values cannot be read.
        """
        with self._lock:
            self._require_idle()
            layers = self._engine.read_kv(self._sequence) if with_kv else []
            token_ids = self.token_ids
        write_session(path, self._engine.session_origin, token_ids, layers)

    def load(self, path: str | os.PathLike[str]) -> int:
        """Take over the context that `save` wrote; this session must be empty.

        Keys and values are used if they were made by the same versions with the same settings, so that they are those
        that would be computed; otherwise a line in the log says why they are computed again. They decide what the
        model reads, for all requests that share a beginning with the context: load no file that you do not trust.

        Returns:
            Tokens whose keys and values were taken over; the others are computed when the session generates.

        Raises:
            SessionError: the file cannot be read, is damaged, or belongs to another model; or this session is closed,
                generating, or not empty.
            PromptTooLongError: the context is longer than the engine takes.
        """
        with self._lock:
            self._require_idle()
            if self._sequence.token_ids:
                raise SessionError(
                    f"The session holds {len(self._sequence):,} tokens; a saved one is loaded into an empty session. "
                    "Truncate it to 0 tokens, or open a new one with Engine.session()."
                )
            saved = read_session(path, self._engine.session_origin)
            reason = self._take_over(saved)
            num_cached = self.num_cached_tokens
        if reason:
            _logger.warning(
                "The keys and values in %s are not used, so its tokens are computed again: %s.", path, reason
            )
        return num_cached

    def close(self) -> None:
        """Cancel what runs and give the cache blocks back. A closed session refuses everything but `close`."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._engine.remove_sequence(self._sequence, self._request)

    def __del__(self) -> None:
        """Give the cache blocks of a forgotten session back; the garbage collector must not wait for a lock."""
        if not getattr(self, "_is_closed", True):
            self._engine.loop.forget(self._sequence)

    def __enter__(self) -> Self:
        """Enter a `with` block that closes the session."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the session."""
        self.close()

    def _extend(self, token_ids: list[int]) -> None:
        total = len(self._sequence) + len(token_ids)
        if total >= self._engine.context_len:
            raise PromptTooLongError(
                f"The session would hold {total:,} tokens; this engine takes {self._engine.context_len:,} with at "
                "least one to generate. Make it shorter, or start the engine with a larger max_model_len."
            )
        self._sequence.token_ids += token_ids

    def _take_over(self, saved: SavedSession) -> str:
        """Fill the empty session, or leave it empty; return why saved keys and values cannot be used."""
        try:
            self._extend(self._engine.encode(saved.token_ids))
            return self._engine.write_kv(self._sequence, saved.layers) if saved.layers else saved.reason
        except ConfigError as error:
            raise SessionError(f"The session file is damaged: {error} Save the session again.") from error
        except BaseException:
            self._engine.truncate_sequence(self._sequence, 0)
            raise

    def _new_request(self, params: SamplingParams | None, constraint: object) -> Request:
        if params is not None and params.n != 1:
            raise ConfigError(f"n is {params.n}; a session has one text. Fork it once per completion.")
        self._require_idle()
        if not self._sequence.token_ids:
            raise SessionError("The session is empty. Append a prompt before generating.")
        self._request = self._engine.new_request(self._sequence, params, constraint, drafter=self._drafter)
        return self._request

    def _require_idle(self) -> None:
        if self._is_closed:
            raise SessionError("The session is closed. Open a new one with Engine.session().")
        if self._request is None or not self._engine.is_running(self._request):
            return
        if not self._request.is_abort_wanted:
            raise SessionError("The session is generating. Finish or close its stream first, or fork() the session.")
        # Cancelled without waiting, by a task or a forgotten stream: it ends with the step that runs now.
        self._engine.loop.abort(self._request)
