"""What a run tells while it goes on. Events go to `on_event` on the caller's thread, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from sureact.agent.trajectory import Step
    from sureact.outputs import EarlyEnd


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The prompt stands and the first thought is about to be decoded."""

    inputs: dict[str, Any]
    tool_names: tuple[str, ...]
    max_iters: int


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """A piece of a thought, as it is decoded."""

    step_index: int
    text: str
    is_thinking: bool = False
    """Whether it stands between `<think>` and `</think>`."""


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a call, as it is decoded, in the notation of the prompt format."""

    step_index: int
    text: str
    call_id: str = ""
    """Such as `call_0_1`, of an agent that makes several calls a turn; else empty."""


@dataclass(frozen=True, slots=True)
class EndedEarly:
    """A part that was just decoded, or a value in it, was ended because it ran on or its tokens were used up."""

    part: Literal["thought", "call", "outputs"]
    step_index: int | None
    """None for the outputs."""
    end: EarlyEnd


@dataclass(frozen=True, slots=True)
class CallWithdrawn:
    """A call repeats an earlier one, so it was taken back, and another tool is decided on."""

    step_index: int
    tool_name: str
    tool_args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call is decided and about to run."""

    step_index: int
    tool_name: str
    tool_args: dict[str, Any]
    """Arguments that the tool runs with, as the user changed them, if at all."""
    call_id: str = ""
    """Such as `call_0_1`, of an agent that makes several calls a turn; else empty."""


@dataclass(frozen=True, slots=True)
class ObservationReady:
    """A call is done and its observation is in the context."""

    step_index: int
    observation: str
    is_error: bool
    is_repeat: bool
    call_id: str = ""
    """Such as `call_0_1`, of an agent that makes several calls a turn; else empty."""
    step: Step | None = field(default=None, compare=False, repr=False)
    """The finished step; None where a trace is shown again."""


@dataclass(frozen=True, slots=True)
class ContextTruncated:
    """The context was full: observations were cut, steps dropped, and the session was rebuilt from what is left."""

    dropped_steps: tuple[int, ...]
    """Indices of the steps that are gone."""
    rebuilt_tokens: int
    """Tokens that must be computed again."""
    trimmed_steps: tuple[int, ...] = ()
    """Indices of the steps whose observations were cut."""


@dataclass(frozen=True, slots=True)
class OutputDelta:
    """A piece of the outputs' JSON, as it is decoded."""

    text: str


@dataclass(frozen=True, slots=True)
class AnswerReady:
    """The outputs are there and the run is over."""

    outputs: dict[str, Any]
    termination_reason: str


Event = (
    RunStarted
    | ThoughtDelta
    | CallDelta
    | EndedEarly
    | CallWithdrawn
    | CallStarted
    | ObservationReady
    | ContextTruncated
    | OutputDelta
    | AnswerReady
)
OnEvent = Callable[[Event], None]
