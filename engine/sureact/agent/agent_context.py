"""The context of an agent: a session that only grows, and how thoughts and calls are decoded on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, cast

from sureact.agent.events import CallDelta, CallWithdrawn, EndedEarly, Event, ThoughtDelta
from sureact.agent.prediction import RunUsage
from sureact.agent.recorded_session import RecordedSession
from sureact.agent.streaming import stream_text
from sureact.agent.thinking import ThoughtWriter
from sureact.agent.token_limits import RunBudget, TokenLimits
from sureact.agent.trajectory import Trajectory
from sureact.errors import ConstraintError, ConstraintStateError
from sureact.outputs import StepOutput, TokenUsage
from sureact.sampling_params import SamplingParams
from sureact.tokens.chat_template import PromptText

if TYPE_CHECKING:
    from sureact.agent.call_rules import CallChoice
    from sureact.agent.language_model import LanguageModel
    from sureact.agent.prompt_format import PromptFormat
    from sureact.constraints.constraint import Constraint

FormatT = TypeVar("FormatT", bound="PromptFormat")

# Of a call that could not be decoded.
_NOTHING = StepOutput(
    text="", token_ids=(), finish_reason="stop", usage=TokenUsage(prompt_tokens=0, cached_tokens=0, completion_tokens=0)
)


class Generation(NamedTuple):
    """One text that the model generated, and how it was asked for."""

    output: StepOutput
    params: SamplingParams
    constraint: Constraint | None


class Thought(NamedTuple):
    """A decoded thought."""

    text: str
    output: StepOutput
    thinking: str = ""
    """What a thinking model wrote between `<think>` and `</think>`."""


class Call(NamedTuple):
    """A decided call."""

    tool_name: str
    """Empty when no call could be decoded."""
    tool_args: dict[str, Any]
    """Empty when the call is refused."""
    output: StepOutput
    refusal: ConstraintError | None = None
    """Why the call cannot run: its arguments break a rule that no grammar can hold, or decoding found none."""

    def edited(self, args: Mapping[str, Any] | None) -> Call:
        """Return the call as it runs: with these arguments, if the user changed them."""
        return self if args is None else self._replace(tool_args=dict(args))


class AgentContext(Generic[FormatT]):
    """A session of an agent, with what it took."""

    def __init__(
        self, lm: LanguageModel, prompt_format: FormatT, limits: TokenLimits, emit: Callable[[Event], None]
    ) -> None:
        """Open a session.

        Args:
            lm: the model.
            prompt_format: how the agent's work is written down for it.
            limits: most tokens per part, and limits of the whole.
            emit: told of each piece of text.
        """
        self.trajectory = Trajectory()
        """The finished steps."""
        self.usage = RunUsage()
        self.generations: list[Generation] = []
        """What was generated for the last part; nothing where it was taken over from an interrupted run."""
        self.budget = RunBudget(limits, self.usage)
        """What is left of the run's tokens and seconds."""
        self.is_opening_told = True
        """Whether the text of the opening is all that stands there: a secret that it does not hold is not there."""
        self._lm = lm
        self._format = prompt_format
        self._limits = limits
        self._emit = emit
        self._session = RecordedSession(lm)

    @property
    def token_ids(self) -> Sequence[int]:
        """All token ids of the context."""
        return self._session.token_ids

    @property
    def observation_limit(self) -> int:
        """Most tokens of an observation."""
        return min(self._limits.observation, self._lm.context_len // 4)

    @property
    def kept_outputs(self) -> int:
        """Tokens that steps leave free for the outputs, which get more where there is more."""
        return min(self._limits.outputs, self._lm.context_len // 8)

    @property
    def _outputs_limit(self) -> int:
        """Most tokens of the outputs, from the end of the context on."""
        return min(self._limits.outputs, self._lm.context_len - len(self._session.token_ids))

    def close(self) -> None:
        """Give the session's memory back and stop the clock."""
        self._session.close()
        self.usage.seconds = self.budget.seconds

    def _write_thought(self, step_index: int, *, is_open: bool) -> tuple[Thought, StepOutput]:
        """Decode a thought; return it, and its last generation."""
        writer = ThoughtWriter(
            self._session,
            self._format,
            self._limits.thought,
            lambda params: self._generate(
                params, None, lambda text: self._emit(ThoughtDelta(step_index, text, writer.is_thinking))
            ),
        )
        text = writer.write(is_open=is_open)
        for output in writer.outputs:
            self._tell_early_ends(output, "thought", step_index)
        return Thought(text, writer.output, writer.thinking), writer.outputs[-1]

    def _choose_call(self, choice: CallChoice, step_index: int, call_id: str = "") -> Call | None:
        """Decode a call; one that the choice masks is taken back, and another tool is decided on.

        If no other is left, or the run has no tokens for that, it stands. Its arguments are not varied: decoding would
        meet the mask at their last token only, and go on from there with what nobody means (`a.txt.txt`; 10 for 1).
        """
        from sureact.constraints.narrowed_call import narrowed_call

        start, names = len(self._session.token_ids), choice.names
        while True:
            constraint = narrowed_call(self._format.call_constraint, names)
            call = self._decode_call(constraint, self._limits.call, step_index, call_id)
            if call is None or call.refusal or not choice.is_masked(call.tool_name, call.tool_args):
                return call
            names = tuple(name for name in names if name != call.tool_name)
            if not names or not self.budget.has_tokens(self._limits.call):
                return call
            self._session.truncate(start)
            self._emit(CallWithdrawn(step_index, call.tool_name, call.tool_args))

    def _decode_call(self, constraint: Constraint, limit: int, step_index: int, call_id: str = "") -> Call | None:
        """Decode a call; None when it did not end within its limit.

        One that finds no way on under its grammar leaves nothing in the context.
        """
        start = len(self._session.token_ids)
        params = SamplingParams(max_tokens=limit)
        try:
            output = self._generate(params, constraint, lambda text: self._emit(CallDelta(step_index, text, call_id)))
        except ConstraintStateError as error:
            self._session.truncate(start)
            return Call("", {}, _NOTHING, error)
        self._tell_early_ends(output, "call", step_index)
        if output.finish_reason == "length":
            return None
        try:
            name, args = cast("tuple[str, dict[str, Any]]", constraint.parse(output.text))
        except ConstraintError as error:
            return Call(self._format.tool_name_of(output.text), {}, output, error)
        return Call(name, args, output)

    def _generate(
        self, params: SamplingParams, constraint: Constraint | None, on_text: Callable[[str], None]
    ) -> StepOutput:
        params = replace(params, on_max_tokens=self._limits.on_max_tokens, runaway=self._limits.runaway)
        output = stream_text(self._session, params, constraint, on_text)
        self.usage.add(output)
        self.generations.append(Generation(output, params, constraint))
        return output

    def _tell_early_ends(
        self, output: StepOutput, part: Literal["thought", "call", "outputs"], step_index: int | None
    ) -> None:
        for end in output.early_ends:
            self._emit(EndedEarly(part, step_index, end))

    def _append(self, text: PromptText | Sequence[int]) -> None:
        if not isinstance(text, PromptText) or text.text:
            self._session.append(text)
