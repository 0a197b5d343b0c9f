"""One run of an agent: its session, which only grows, and each thing that is decided on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from sureact.agent.agent_context import AgentContext, Call, Thought
from sureact.agent.call_rules import CallChoice
from sureact.agent.context_room import ContextRoom, Truncate
from sureact.agent.events import ContextTruncated, Event, OutputDelta
from sureact.agent.prompt_format import AFTER_THINK, THINK_CLOSE, ends_in_think, template_text, think_closed
from sureact.agent.recorded_session import RecordedSession
from sureact.agent.token_limits import TokenLimits
from sureact.agent.trajectory import Step, Trajectory
from sureact.errors import PromptTooLongError
from sureact.sampling_params import SamplingParams
from sureact.tokens.chat_template import PromptText

if TYPE_CHECKING:
    from sureact.agent.call_rules import CallChoice
    from sureact.agent.extraction import OutputExtraction
    from sureact.agent.language_model import LanguageModel
    from sureact.agent.prompt_format import PromptFormat
    from sureact.agent.resume import ResumePoint

# What a format writes around a thought, a call and an observation, in tokens.
_FORMAT_TOKENS_PER_STEP = 64
# What the note of a cut observation adds to what it keeps.
_CUT_NOTE_TOKENS = 32
_THINK_CLOSING = template_text(THINK_CLOSE + AFTER_THINK)
_Part = TypeVar("_Part")


class AgentRun(AgentContext["PromptFormat"]):
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
        self._opening = prompt_format.opening(inputs)  # may fail, so before a session is opened
        super().__init__(lm, prompt_format, limits, emit)
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

    def count_tokens(self, text: str) -> int:
        """Tokens of a text."""
        return self._lm.count_tokens(text)

    @property
    def _step_tokens(self) -> int:
        """Most tokens that a step can take, and the outputs after it once its observation is cut."""
        cut = min(self._limits.kept_observation, self.observation_limit) + _CUT_NOTE_TOKENS
        after_call = max(self.observation_limit, cut + self._request_tokens + self.kept_outputs)
        return self._limits.step + _FORMAT_TOKENS_PER_STEP + after_call

    @cached_property
    def _request_tokens(self) -> int:
        """Tokens between the last observation and the outputs."""
        return self._lm.count_tokens((_THINK_CLOSING + think_closed(self._format.outputs_request())).text)

    def make_room_for_step(self, truncate: Truncate) -> None:
        """Cut observations and drop steps until another step fits whatever it holds, and the outputs after it.

        Raises:
            PromptTooLongError: `truncate` cannot drop any more, or made nothing shorter.
        """
        self._make_room(self._step_tokens, truncate)

    def think(self, step_index: int) -> Thought:
        """Decode a thought."""
        self.generations = []
        if self._resumed is not None and (recorded := self._resumed.take_thought(step_index)) is not None:
            return self._take_over(recorded.ids, Thought(recorded.text, recorded.output, recorded.thinking))
        return self._write_thought(step_index, is_open=self._is_in_open_think)[0]

    @property
    def _is_in_open_think(self) -> bool:
        """Whether the context ends inside a `<think>`: one that the opening opened, when no step was taken yet."""
        return len(self._session.token_ids) == self._opening_tokens and ends_in_think(self._opening)

    def decide_call(self, step_index: int, choice: CallChoice | None = None) -> Call | None:
        """Decode tool name and arguments under the grammar; None when `TokenLimits.call` ended them early.

        A call that the choice masks is taken back, and another tool is decided on.

        Arguments that break a rule that no grammar can hold, such as a key twice in one object, refuse the call, and so
        does a grammar that leaves no way on.

        Raises:
            InternalError: the call violates the grammar.
        """
        self.generations = []
        if self._resumed is not None and (recorded := self._resumed.take_call(step_index)) is not None:
            return self._take_over(recorded.ids, Call(recorded.tool_name, recorded.tool_args, recorded.output))
        return self._choose_call(choice or CallChoice(self._format.call_constraint.all_names), step_index)

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

        Where not even a context of one step has room for `TokenLimits.outputs`, they get what is left.

        Raises:
            OutputTruncatedError: they did not end within `TokenLimits.outputs`, or what is left.
            PromptTooLongError: there is no room for them.
        """
        try:
            self._make_room(self._request_tokens + self._limits.outputs, truncate)
        except PromptTooLongError:
            self._make_room(self._request_tokens + self.kept_outputs, truncate)
        if self._is_in_open_think:
            self._append(_THINK_CLOSING)
        self._append(think_closed(self._format.outputs_request()))
        params = SamplingParams(max_tokens=self._outputs_limit)
        self.generations = []
        output = self._generate(params, extraction.constraint, lambda text: self._emit(OutputDelta(text)))
        self._tell_early_ends(output, "outputs", None)
        return extraction.parse(output)

    def _take_over(self, ids: PromptText | Sequence[int], part: _Part) -> _Part:
        """Add a part of an interrupted run to the context."""
        self._append(ids)
        return part

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
