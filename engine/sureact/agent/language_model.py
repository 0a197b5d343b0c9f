"""The one interface through which an agent sees a model. `Engine` has this shape; tests script it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sureact.constraints.constraint import Constraint
    from sureact.outputs import StepOutput, StreamDelta
    from sureact.sampling_params import SamplingParams
    from sureact.tokens.chat_template import Message, PromptText


class LanguageModelSession(Protocol):
    """A growing context on a model; its tokens are never rendered or computed twice."""

    @property
    def token_ids(self) -> Sequence[int]:
        """All token ids of the context."""
        ...

    @property
    def num_cached_tokens(self) -> int:
        """Tokens whose keys and values are in the cache."""
        ...

    def append(self, text: str | Sequence[int] | PromptText, *, parse_control_tokens: bool = False) -> int:
        """Add text, ids or a rendered prompt; return the number of tokens added."""
        ...

    def generate(self, params: SamplingParams, constraint: Constraint | None = None) -> StepOutput:
        """Generate from the end of the context and keep what was generated in it."""
        ...

    def stream(self, params: SamplingParams, constraint: Constraint | None = None) -> Iterator[StreamDelta]:
        """Like `generate`, piece by piece; closing the iterator cancels."""
        ...

    def truncate(self, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...


class LanguageModel(Protocol):
    """What an agent needs of a model."""

    @property
    def name(self) -> str:
        """Name to show and to key per-model defaults by."""
        ...

    @property
    def context_len(self) -> int:
        """Most tokens a session can hold."""
        ...

    def session(self) -> LanguageModelSession:
        """Open an empty session."""
        ...

    def render_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, object]] = (),
        add_generation_prompt: bool = True,
    ) -> PromptText:
        """Render messages with the model's chat template; contents stay text whatever they hold.

        Raises:
            ConfigError: the model has no chat template.
        """
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text."""
        ...
