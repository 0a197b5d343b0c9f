"""What comes out of a turn of the model, piece by piece. An answer is the sum of its pieces, streamed or not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from sureact.outputs import EarlyEnd, StepLogprobs


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Text of the answer, or of the thought before it."""

    kind: Literal["content", "reasoning"]
    text: str
    logprobs: tuple[StepLogprobs, ...] = ()
    """Of tokens of the answer whose text is told by now."""


@dataclass(frozen=True, slots=True)
class CallBegun:
    """The model calls a tool."""

    index: int
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallPiece:
    """Text of the arguments of a call."""

    index: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUsage:
    """Tokens that went in and came out."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class PartEndedEarly:
    """A part of the turn, or a value in it, was ended because it ran on or its tokens were used up."""

    part: Literal["reasoning", "content", "call"]
    call_index: int | None
    """None for what is no call."""
    end: EarlyEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """The turn is over."""

    finish_reason: Literal["stop", "length", "tool_calls"]
    stop_reason: str | int | None
    token_ids: tuple[int, ...]
    """All ids that follow the prompt."""
    prompt_token_ids: tuple[int, ...]
    usage: TurnUsage
    early_ends: tuple[PartEndedEarly, ...] | None = None
    """None where the request asks for no guard."""


TurnEvent: TypeAlias = TextPiece | CallBegun | CallPiece | TurnEnd

Emit: TypeAlias = Callable[[TurnEvent], Awaitable[None]]
"""Takes each event; the model goes on while it waits."""
