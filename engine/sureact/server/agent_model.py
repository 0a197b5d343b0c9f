"""The model of a served agent: its sessions share cached beginnings as the request may, and what it says is noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sureact.server.request_record import new_generation
from sureact.server.turn_events import TurnUsage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sureact.agent.language_model import LanguageModelSession
    from sureact.constraints.constraint import Constraint
    from sureact.outputs import StepOutput, StreamDelta
    from sureact.sampling_params import SamplingParams
    from sureact.server.request_record import Generation
    from sureact.tokens.chat_template import Message, PromptText

OnOutput = Callable[["StepOutput", bool], None]
"""Takes each text of a model once all of it was read, and whether it was constrained."""


class SaltedModel(Protocol):
    """A `LanguageModel` whose sessions say with whom they share cached beginnings, as an `Engine` is."""

    @property
    def name(self) -> str:
        """Name of the model."""
        ...

    @property
    def context_len(self) -> int:
        """Most tokens a session can hold."""
        ...

    def session(self, *, cache_salt: str | None = None) -> LanguageModelSession:
        """Open an empty session, which shares beginnings with those of its salt."""
        ...

    def render_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, object]] = (),
        add_generation_prompt: bool = True,
    ) -> PromptText:
        """Render messages with the model's chat template."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text."""
        ...


class AgentModel:
    """A `LanguageModel` for one run."""

    def __init__(self, lm: SaltedModel, cache_salt: str | None, on_output: OnOutput) -> None:
        """Take the model itself, with whom its sessions share the cache, and who is told of its texts."""
        self._lm = lm
        self._cache_salt = cache_salt
        self._on_output = on_output
        self._has_begun = False

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._lm.name

    @property
    def context_len(self) -> int:
        """Most tokens a session can hold."""
        return self._lm.context_len

    def session(self) -> LanguageModelSession:
        """Open an empty session."""
        return _NotedSession(self._lm.session(cache_salt=self._cache_salt), self._begin_text, self._on_output)

    def render_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, object]] = (),
        add_generation_prompt: bool = True,
    ) -> PromptText:
        """Render messages with the model's chat template."""
        return self._lm.render_chat(messages, tools=tools, add_generation_prompt=add_generation_prompt)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text."""
        return self._lm.count_tokens(text)

    def _begin_text(self) -> Generation:
        """Return where a text is noted. Only the first of a run is what its client waits for from the beginning."""
        generation = new_generation(is_later=self._has_begun)
        self._has_begun = True
        return generation


class _NotedSession:
    """A session whose texts are noted in the metrics and in the log."""

    def __init__(self, session: LanguageModelSession, begin: Callable[[], Generation], on_output: OnOutput) -> None:
        self._session = session
        self._begin = begin
        self._on_output = on_output
        self.append = session.append
        self.truncate = session.truncate
        self.close = session.close

    @property
    def token_ids(self) -> Sequence[int]:
        return self._session.token_ids

    @property
    def num_cached_tokens(self) -> int:
        return self._session.num_cached_tokens

    def generate(self, params: SamplingParams, constraint: Constraint | None = None) -> StepOutput:
        output: StepOutput | None = None
        for delta in self.stream(params, constraint):
            output = delta.output or output
        assert output is not None, "a stream ends with its output"
        return output

    def stream(self, params: SamplingParams, constraint: Constraint | None = None) -> Iterator[StreamDelta]:
        generation = self._begin()
        output: StepOutput | None = None
        for delta in self._session.stream(params, constraint):
            generation.saw(delta)
            output = delta.output or output
            yield delta
        if output is None or output.finish_reason == "abort":
            return
        usage = output.usage
        generation.end(
            TurnUsage(
                prompt_tokens=usage.prompt_tokens,
                cached_tokens=usage.cached_tokens,
                completion_tokens=usage.completion_tokens,
            ),
            output.finish_reason,
        )
        self._on_output(output, constraint is not None)
