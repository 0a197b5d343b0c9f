"""Messages to prompt: runs the checkpoint's Jinja chat template and keeps track of what is control and what is text."""

from dataclasses import dataclass
from typing import NotRequired, TypedDict


class Message(TypedDict):
    """One chat message, as chat templates take it."""

    role: str
    content: str
    tool_calls: NotRequired[list[dict[str, object]]]
    name: NotRequired[str]


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A stretch of a prompt."""

    text: str
    is_control: bool
    """Whether control tokens are recognised in it. False for everything a user, a tool or a model wrote."""


@dataclass(frozen=True, slots=True)
class PromptText:
    """A rendered prompt. Neighbouring spans are tokenized jointly; only control spans can yield control tokens."""

    spans: tuple[TextSpan, ...]

    @property
    def text(self) -> str:
        """The prompt as one string."""
        return "".join(span.text for span in self.spans)

    def __add__(self, other: "PromptText") -> "PromptText":
        """Concatenate two prompts."""
        return PromptText(self.spans + other.spans)
