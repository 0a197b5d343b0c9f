"""A session of a module: what it generates is kept in the modules' histories and told to their callbacks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sureact.agent.call_history import LmCall
from sureact.agent.callback import ObservedCall
from sureact.agent.module_scope import current_cancellation, note_generation
from sureact.agent.transcript import Transcript
from sureact.errors import ContextWindowExceededError, PromptTooLongError, SessionError
from sureact.tokens.chat_template import PromptText

if TYPE_CHECKING:
    from collections.abc import Generator

    from sureact.agent.language_model import LanguageModel, LanguageModelSession
    from sureact.constraints.constraint import Constraint
    from sureact.outputs import StepOutput, StreamDelta
    from sureact.sampling_params import SamplingParams


class RecordedSession:
    """A `LanguageModelSession` that passes everything on."""

    def __init__(self, lm: LanguageModel) -> None:
        """Open a session. It is closed when the call that opened it is cancelled.

        Raises:
            RequestAbortedError: that call is cancelled already.
        """
        self._cancellation = cancellation = current_cancellation()
        if cancellation is not None:
            cancellation.raise_if_cancelled()
        self._lm = lm
        self._session: LanguageModelSession = lm.session()
        self._transcript = Transcript()
        self._forget = cancellation.add_callback(self._session.close) if cancellation is not None else None

    @property
    def token_ids(self) -> Sequence[int]:
        """All token ids of the context."""
        return self._session.token_ids

    @property
    def num_cached_tokens(self) -> int:
        """Tokens whose keys and values are in the cache."""
        return self._session.num_cached_tokens

    def append(self, text: str | Sequence[int] | PromptText, *, parse_control_tokens: bool = False) -> int:
        """Add text, ids or a rendered prompt; return the number of tokens added.

        Raises:
            ContextWindowExceededError: they do not fit.
            RequestAbortedError: the call that opened the session is cancelled.
        """
        try:
            with self._translated_errors():
                num_tokens = self._session.append(text, parse_control_tokens=parse_control_tokens)
        except ContextWindowExceededError as error:
            raise ContextWindowExceededError(
                f"What the model is to read does not fit; shorten the inputs, or give fewer or shorter tools. {error}"
            ) from error.__cause__
        self._note(_shown(text))
        return num_tokens

    def generate(self, params: SamplingParams, constraint: Constraint | None = None) -> StepOutput:
        """Generate from the end of the context and keep what was generated in it."""
        output: StepOutput | None = None
        for delta in self.stream(params, constraint):
            output = delta.output or output
        assert output is not None
        return output

    def stream(self, params: SamplingParams, constraint: Constraint | None = None) -> Iterator[StreamDelta]:
        """Like `generate`, piece by piece; closing the iterator cancels."""
        call = ObservedCall("lm")
        if call.is_heard:
            prompt = self._transcript.text
            call.start(self._lm, {"prompt": prompt, "params": params, "constraint": constraint})
        begun, started = time.time(), time.perf_counter()
        output: StepOutput | None = None
        try:
            with self._translated_errors():
                for delta in self._session.stream(params, constraint):
                    if delta.output is not None:
                        # Before the last piece is handed on: a reader may stop there.
                        output = delta.output
                        self._finish(call, output, params, constraint, begun, time.perf_counter() - started)
                    yield delta
        except GeneratorExit:
            raise  # the reader gave up, which is no fault
        except BaseException as error:
            call.exception = error
            raise
        finally:
            if output is None:
                # What was generated until then stays in the context.
                self._transcript = self._transcript.truncated(len(self._session.token_ids))
            call.outputs = output
            call.end()

    def truncate(self, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens."""
        with self._translated_errors():
            self._session.truncate(num_tokens)
        self._transcript = self._transcript.truncated(num_tokens)

    def close(self) -> None:
        """Give the memory back."""
        if self._forget is not None:
            self._forget()
        self._session.close()

    def _finish(
        self,
        call: ObservedCall,
        output: StepOutput,
        params: SamplingParams,
        constraint: Constraint | None,
        begun: float,
        seconds: float,
    ) -> None:
        is_constrained = constraint is not None
        name = self._lm.name
        entry = LmCall(call.call_id, begun, name, params, is_constrained, output, seconds, self._transcript)
        self._note(output.text)
        note_generation(entry, output)

    def _note(self, text: str) -> None:
        self._transcript = self._transcript.extended(len(self._session.token_ids), text)

    @contextmanager
    def _translated_errors(self) -> Generator[None]:
        try:
            yield
        except ContextWindowExceededError:
            raise
        except PromptTooLongError as error:
            raise ContextWindowExceededError(str(error)) from error
        except SessionError:
            if self._cancellation is not None:
                self._cancellation.raise_if_cancelled()  # which closed the session
            raise


def _shown(text: str | Sequence[int] | PromptText) -> str:
    if isinstance(text, PromptText):
        return text.text
    return text if isinstance(text, str) else f"[{len(text)} tokens that were generated before]"
