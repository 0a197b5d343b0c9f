"""One run of an agent: its session, which only grows, and each thing that is decided on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sureact.agent.context_room import ContextRoom, Truncate
from sureact.agent.events import CallDelta, CallWithdrawn, ContextTruncated, Event, OutputDelta, ThoughtDelta
from sureact.agent.prediction import RunUsage
from sureact.agent.prompt_format import AFTER_THINK, THINK_CLOSE, ends_in_think, template_text, think_closed
from sureact.agent.recorded_session import RecordedSession
from sureact.agent.streaming import stream_text
from sureact.agent.thinking import ThoughtWriter
from sureact.agent.token_limits import RunBudget, TokenLimits
from sureact.agent.trajectory import Step, Trajectory
from sureact.errors import ConstraintError, ConstraintStateError
from sureact.outputs import StepOutput, TokenUsage
from sureact.sampling_params import SamplingParams
from sureact.tokens.chat_template import PromptText

if TYPE_CHECKING:
    from sureact.agent.call_rules import CallChoice
    from sureact.agent.extraction import OutputExtraction
    from sureact.agent.language_model import LanguageModel
    from sureact.agent.prompt_format import PromptFormat
    from sureact.agent.resume import ResumePoint
    from sureact.constraints.constraint import Constraint

# What a format writes around a thought, a call and an observation, in tokens.
_FORMAT_TOKENS_PER_STEP = 64
# Of a call that could not be decoded.
_NOTHING = StepOutput(
    text="", token_ids=(), finish_reason="stop", usage=TokenUsage(prompt_tokens=0, cached_tokens=0, completion_tokens=0)
)
_Part = TypeVar("_Part")


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


class AgentRun:
    """A session with the steps taken on it."""

    def __init__(
        self,
        lm: LanguageModel,
        prompt_format: PromptFormat,
        inputs: Mapping[str, Any],
        limits: TokenLimits,
        emit: Callable[[Event], None],
    ) -> None:
        """Open a session and append the opening prompt.

        Raises:
            PromptTooLongError: the opening does not fit into the context.
        """
        self.trajectory = Trajectory()
        self.usage = RunUsage()
        self.generations: list[Generation] = []
        """What was generated for the last part; nothing where it was taken over from an interrupted run."""
        self._lm = lm
        self._format = prompt_format
        self._opening = prompt_format.opening(inputs)
        self._limits = limits
        self._emit = emit
        self.budget = RunBudget(limits, self.usage)
        """What is left of the run's tokens and seconds."""
        self._session = RecordedSession(lm)
        self._committed_tokens = 0
        self._resumed: ResumePoint | None = None
        try:
            self._opening_tokens = self._session.append(self._opening)
        except BaseException:
            self._session.close()
            raise

    @property
    def opening_text(self) -> str:
        """The prompt up to the first thought."""
        return self._opening.text

    @property
    def token_ids(self) -> Sequence[int]:
        """All token ids of the context."""
        return self._session.token_ids

    def restore(self, point: ResumePoint) -> None:
        """Write the finished steps of an interrupted run into the session, with the ids of the first time.

        The thought and the call of its open step are taken over when they are asked for.
        """
        if not point.needs_opening:
            self._session.truncate(0)
        for part in point.context:
            self._append(part)
        self.trajectory = Trajectory(point.steps)
        self._resumed = point
        for output in point.generations:
            self.usage.add(output)
        self.usage.tool_s = point.tool_s

    @property
    def observation_limit(self) -> int:
        """Most tokens of an observation."""
        return min(self._limits.observation, self._lm.context_len // 4)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text."""
        return self._lm.count_tokens(text)

    @property
    def _step_tokens(self) -> int:
        """Most tokens that a step can take."""
        return self._limits.thought + self._limits.call + self.observation_limit + _FORMAT_TOKENS_PER_STEP

    def make_room_for_step(self, truncate: Truncate) -> None:
        """Cut observations and drop steps until another step fits whatever it holds.

        Raises:
            PromptTooLongError: `truncate` cannot drop any more, or made nothing shorter.
        """
        self._make_room(self._step_tokens, truncate)

    def think(self, step_index: int) -> Thought:
        """Decode a thought."""
        self.generations = []
        if self._resumed is not None and (recorded := self._resumed.take_thought(step_index)) is not None:
            return self._take_over(recorded.ids, Thought(recorded.text, recorded.output, recorded.thinking))
        writer = ThoughtWriter(
            self._session,
            self._format,
            self._limits.thought,
            lambda params: self._generate(
                params, None, lambda text: self._emit(ThoughtDelta(step_index, text, writer.is_thinking))
            ),
        )
        text = writer.write(is_open=self._is_in_open_think)
        return Thought(text, writer.output, writer.thinking)

    @property
    def _is_in_open_think(self) -> bool:
        """Whether the context ends inside a `<think>`: one that the opening opened, when no step was taken yet."""
        return len(self._session.token_ids) == self._opening_tokens and ends_in_think(self._opening)

    def decide_call(self, step_index: int, choice: CallChoice | None = None) -> Call | None:
        """Decode tool name and arguments under the grammar; None when `TokenLimits.call` ended them early.

        A call that the choice masks is taken back, and another tool is decided on; if no other is left, or the run has
        no tokens for that, it stands. Its arguments are not varied: decoding would meet the mask at their last token
        only, and go on from there with what nobody means (`routes.txt.txt`; 10 for 1).

        Arguments that break a rule that no grammar can hold, such as a key twice in one object, refuse the call, and so
        does a grammar that leaves no way on.

        Raises:
            InternalError: the call violates the grammar.
        """
        self.generations = []
        if self._resumed is not None and (recorded := self._resumed.take_call(step_index)) is not None:
            return self._take_over(recorded.ids, Call(recorded.tool_name, recorded.tool_args, recorded.output))
        names = choice.names if choice else self._format.call_constraint.all_names
        start = len(self._session.token_ids)
        while True:
            call = self._decode_call(step_index, start, names)
            others = tuple(name for name in names if call and name != call.tool_name)
            if call is None or call.refusal or not choice or not choice.is_masked(call.tool_name, call.tool_args):
                return call
            if not others or not self.budget.has_tokens(self._limits.call):
                return call
            self._session.truncate(start)
            self._emit(CallWithdrawn(step_index, call.tool_name, call.tool_args))
            names = others

    def _decode_call(self, step_index: int, start: int, names: tuple[str, ...]) -> Call | None:
        from sureact.constraints.narrowed_call import narrowed_call

        params = SamplingParams(max_tokens=self._limits.call)
        constraint = narrowed_call(self._format.call_constraint, names)
        try:
            output = self._generate(params, constraint, lambda text: self._emit(CallDelta(step_index, text)))
        except ConstraintStateError as error:
            self._session.truncate(start)
            return Call("", {}, _NOTHING, error)
        if output.finish_reason == "length":
            return None
        try:
            name, args = constraint.parse(output.text)
        except ConstraintError as error:
            return Call(self._format.tool_name_of(output.text), {}, output, error)
        return Call(name, args, output)

    def observe(self, step: Step) -> None:
        """Append the observation and keep the step."""
        self._append(self._format.observation_of(step))
        self.trajectory.append(step)
        self.usage.tool_s += step.tool_s

    def drop_open_step(self) -> None:
        """Cut a step that has no observation off the context."""
        self._session.truncate(self._committed_tokens)

    def begin_step(self) -> None:
        """Mark where the open step begins."""
        self._committed_tokens = len(self._session.token_ids)

    def extract(self, extraction: OutputExtraction, truncate: Truncate) -> dict[str, Any]:
        """Decode the outputs under their schema.

        Raises:
            OutputTruncatedError: they did not end within `TokenLimits.outputs`.
            PromptTooLongError: there is no room for them.
        """
        request = think_closed(self._format.outputs_request())
        closing = template_text(THINK_CLOSE + AFTER_THINK)
        self._make_room(self._lm.count_tokens((closing + request).text) + self._limits.outputs, truncate)
        if self._is_in_open_think:
            self._append(closing)
        self._append(request)
        params = SamplingParams(max_tokens=self._limits.outputs)
        self.generations = []
        output = self._generate(params, extraction.constraint, lambda text: self._emit(OutputDelta(text)))
        return extraction.parse(output)

    def close(self) -> None:
        """Give the session's memory back and stop the clock."""
        self._session.close()
        self.usage.seconds = self.budget.seconds

    def _generate(
        self, params: SamplingParams, constraint: Constraint | None, on_text: Callable[[str], None]
    ) -> StepOutput:
        params = replace(params, on_max_tokens=self._limits.on_max_tokens, runaway=self._limits.runaway)
        output = stream_text(self._session, params, constraint, on_text)
        self.usage.add(output)
        self.generations.append(Generation(output, params, constraint))
        return output

    def _take_over(self, ids: PromptText | Sequence[int], part: _Part) -> _Part:
        """Add a part of an interrupted run to the context."""
        self._append(ids)
        return part

    def _append(self, text: PromptText | Sequence[int]) -> None:
        if not isinstance(text, PromptText) or text.text:
            self._session.append(text)

    def _make_room(self, num_tokens: int, truncate: Truncate) -> None:
        if len(self._session.token_ids) + num_tokens <= self._lm.context_len:
            return
        room = ContextRoom(self._lm, self._format, self._opening_tokens, self._limits.kept_observation)
        before = {step.index: step for step in self.trajectory.steps}
        self.trajectory = room.shortened(self.trajectory, num_tokens, truncate)
        self._rebuild()
        kept = {step.index: step for step in self.trajectory.steps}
        dropped = sorted(before.keys() - kept.keys())
        trimmed = [index for index, step in kept.items() if index in before and step is not before[index]]
        self._emit(ContextTruncated(tuple(dropped), len(self._session.token_ids), tuple(trimmed)))

    def _rebuild(self) -> None:
        """Write the opening and the kept steps into a fresh session."""
        self._session.close()
        self._session = RecordedSession(self._lm)
        self._append(think_closed(self._opening) if self.trajectory.steps else self._opening)
        for step in self.trajectory.steps:
            self._append(self._format.step(step))
