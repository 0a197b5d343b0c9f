"""A growing context on an engine in another process, which learns of what was appended with the next request."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Self

from sureact.constraints.python_type import constraint_of
from sureact.errors import ConfigError, PromptTooLongError, SessionError
from sureact.isolation.messages import Change, CloseSession, End, Failure, Generate, pack_constraint
from sureact.isolation.process_stream import Mailbox, ProcessStream
from sureact.outputs import StreamDelta

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from sureact.isolation.engine_process import EngineProcess
    from sureact.outputs import StepOutput
    from sureact.sampling_params import SamplingParams
    from sureact.tokens.chat_template import PromptText


class Context:
    """Token ids, and how many of them the process has, from the start.

    The session changes it while it is idle, the reader's thread while it generates.
    """

    def __init__(self, token_ids: Sequence[int] = (), num_told: int = 0) -> None:
        self.token_ids = list(token_ids)
        self.num_told = num_told
        self._num_before = 0
        """Tokens before those that are generated."""

    def truncate(self, num_tokens: int) -> None:
        """Keep the first tokens."""
        del self.token_ids[num_tokens:]
        self.num_told = min(self.num_told, num_tokens)

    def begin(self) -> None:
        """Note that what comes now is generated; the process has all that is here."""
        self.num_told = self._num_before = len(self.token_ids)

    def take(self, piece: StreamDelta | End | Failure) -> None:
        """Follow a generation: the ids as they are shown, and at its end those that stay."""
        if isinstance(piece, StreamDelta):
            self.token_ids += piece.token_ids
            return
        self.token_ids[self._num_before :] = piece.tail
        self.num_told = len(self.token_ids)


class ProcessSession:
    """A `Session`, which describes each verb, of an engine in another process. Made by `EngineProcess.session`."""

    def __init__(
        self, engine: EngineProcess, session_id: int, cache_salt: str | None, context: Context | None = None
    ) -> None:
        self._engine = engine
        self._channel = engine.channel
        self._session_id = session_id
        self._cache_salt = cache_salt
        self._context = context or Context()
        # Of the last generation; not its stream, which is cancelled when it is forgotten.
        self._mailbox: Mailbox | None = None
        self._is_closed = False
        # Two threads must not both find the session idle.
        self._lock = threading.Lock()

    @property
    def token_ids(self) -> list[int]:
        """A copy of all token ids of the context; the process is not asked."""
        return list(self._context.token_ids)

    @property
    def num_cached_tokens(self) -> int:
        """Tokens whose keys and values are in the cache now; the process is asked.

        Raises:
            WorkerLostError: the process is gone.
        """
        if self._is_closed or not self._context.num_told:
            return 0
        num_told = self._context.num_told
        num_cached: int = self._channel.ask("num_cached_tokens", self._session_id)
        is_idle = self._mailbox is None or self._mailbox.end.is_set()
        return min(num_cached, num_told) if is_idle else num_cached

    def __len__(self) -> int:
        """Tokens in the context."""
        return len(self._context.token_ids)

    def append(self, text: str | Sequence[int] | PromptText, *, parse_control_tokens: bool = False) -> int:
        """Add to the end of the context, and return how many tokens were added; nothing is computed yet.

        Raises:
            ConfigError: the text ends in a blank, or an id is not in the vocabulary.
            PromptTooLongError: the context is full.
            SessionError: the session is closed or generating.
        """
        token_ids = self._engine.encode(text, parse_control_tokens=parse_control_tokens)
        with self._lock:
            self._require_idle()
            total = len(self) + len(token_ids)
            if total >= self._engine.context_len:
                raise PromptTooLongError(
                    f"The session would hold {total:,} tokens; this engine takes {self._engine.context_len:,} with at "
                    "least one to generate. Make it shorter, or start the engine with a larger max_model_len."
                )
            self._context.token_ids += token_ids
        return len(token_ids)

    def generate(self, params: SamplingParams | None = None, constraint: object = None) -> StepOutput:
        """Generate from the end of the context and keep what was generated in it.

        Raises:
            SureactError: see `Session.generate`.
            WorkerLostError: the process is gone.
        """
        with self._start(params, constraint, is_streamed=False) as deltas:
            return deltas.read_output()

    def stream(self, params: SamplingParams | None = None, constraint: object = None) -> ProcessStream:
        """Like `generate`, piece by piece. Closing the stream cancels; what was generated stays in the context.

        Raises:
            ConfigError: `n` is above 1, or the constraint cannot be sent to another process.
            SessionError: the session is empty, closed or generating.
            WorkerLostError: the process is gone.
        """
        return self._start(params, constraint, is_streamed=True)

    def fork(self) -> ProcessSession:
        """Return a session with the same context that goes its own way."""
        with self._lock:
            self._require_idle()
            session_id = self._engine.new_session_id()
            self._ask("fork", session_id)
            context = Context(self._context.token_ids, len(self))
            return ProcessSession(self._engine, session_id, self._cache_salt, context)

    def truncate(self, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens.

        Raises:
            ConfigError: `num_tokens` is no whole number, negative or more than there are.
        """
        with self._lock:
            self._require_idle()
            if type(num_tokens) is not int or not 0 <= num_tokens <= len(self):
                raise ConfigError(
                    f"num_tokens is {num_tokens!r}; the session holds {len(self)} tokens. Give a whole number up to "
                    "that."
                )
            self._context.truncate(num_tokens)

    def save(self, path: str | os.PathLike[str], *, with_kv: bool = False) -> None:
        """Write the context to a file, as `Session.save` does.

        Raises:
            SessionError: see `Session.save`.
        """
        with self._lock:
            self._require_idle()
            self._ask("save", os.path.abspath(path), with_kv)

    def load(self, path: str | os.PathLike[str]) -> int:
        """Take over the context that `save` wrote, as `Session.load` does; return how many tokens are cached.

        Raises:
            SessionError, PromptTooLongError: see `Session.load`.
        """
        with self._lock:
            self._require_idle()
            num_cached, token_ids = self._ask("load", os.path.abspath(path))
            self._context.token_ids[:] = token_ids
            self._context.num_told = len(token_ids)
        return num_cached

    def close(self) -> None:
        """Cancel what runs and give the memory back, soon. A closed session refuses everything but `close`."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self._mailbox is not None:
                self._mailbox.cancel(self._channel)
            if self._channel.fault is None:
                self._channel.send(CloseSession(self._session_id))

    def __del__(self) -> None:
        """Give the memory of a forgotten session back; the garbage collector must not wait for a lock."""
        if not getattr(self, "_is_closed", True):
            self._channel.forget(CloseSession(self._session_id))

    def __enter__(self) -> Self:
        """Enter a `with` block that closes the session."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the session."""
        self.close()

    def _start(self, params: SamplingParams | None, constraint: object, *, is_streamed: bool) -> ProcessStream:
        if params is not None and params.n != 1:
            raise ConfigError(f"n is {params.n}; a session has one text. Fork it once per completion.")
        asked_for = None if constraint is None else constraint_of(constraint)
        packed = pack_constraint(asked_for)
        with self._lock:
            self._require_idle()
            if not len(self):
                raise SessionError("The session is empty. Append a prompt before generating.")
            change = self._change()
            mailbox = Mailbox(self._context.take)
            self._context.begin()
            stream = ProcessStream(
                self._channel,
                mailbox,
                lambda call_id: Generate(call_id, change, params, packed, is_streamed),
                asked_for,
                keep_alive=self,
            )
            self._mailbox = mailbox
        return stream

    def _ask(self, verb: str, *arguments: object) -> Any:
        """Ask about the context as it is here."""
        answer = self._channel.ask(verb, self._change(), *arguments)
        self._context.num_told = len(self)
        return answer

    def _change(self) -> Change:
        """Return what the process must be told; it is told with the message that carries this."""
        keep, ids = self._context.num_told, self._context.token_ids
        return Change(self._session_id, self._cache_salt, keep, ids[keep:])

    def _require_idle(self) -> None:
        if self._is_closed:
            raise SessionError("The session is closed. Open a new one with EngineProcess.session().")
        if self._mailbox is None or self._mailbox.end.is_set():
            return
        if not self._mailbox.is_cancelled:
            raise SessionError("The session is generating. Finish or close its stream first, or fork() the session.")
        # Cancelled without waiting, or forgotten: it ends with the step that runs now.
        self._channel.send_forgotten()
        self._mailbox.end.wait()
