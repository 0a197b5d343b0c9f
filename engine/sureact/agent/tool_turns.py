"""The loop of turns: think, make one or more calls, read all their observations, until `submit` gives the outputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sureact.agent.approval import Deny, Verdict, edited_args
from sureact.agent.call_rules import EarlierCalls, call_key
from sureact.agent.events import CallStarted, Event, ObservationReady
from sureact.agent.formats.qwen_tool_turns import SUBMIT
from sureact.agent.history import ForcedBy, Turn, TurnCall
from sureact.agent.observation import cut_to_tokens, error_text, repeat_text
from sureact.agent.tool_call import ToolResult
from sureact.agent.tool_run import ToolCall, ToolRun
from sureact.agent.trajectory import Step
from sureact.errors import SignatureError

if TYPE_CHECKING:
    from sureact.agent.agent_context import Call, Thought
    from sureact.agent.react_v2 import ReActV2
    from sureact.agent.run_trace import RunTrace
    from sureact.agent.turn_session import TurnSession

SUBMITTED = "The outputs were submitted."
"""What the model reads after a call of `submit`, when the conversation goes on."""


_NO_TOOL = "the call"
"""What an error names where no tool was."""

# After a reminder that a call repeats, greedy models mostly make it again until the limit. One turn may mend itself.
_MAX_IDLE_TURNS = 2


class Ending(NamedTuple):
    """How the turns ended."""

    outputs: dict[str, Any]
    forced_by: ForcedBy | None


class _Decided(NamedTuple):
    """A call of the open turn."""

    call: Call
    id: str
    step_index: int


class ToolTurns:
    """The turns of one run."""

    def __init__(
        self,
        agent: ReActV2,
        session: TurnSession,
        tool_run: ToolRun,
        trace: RunTrace,
        tell: Callable[[Event], None],
        first_turn: int,
    ) -> None:
        """Take what runs them, and how many turns the conversation has already."""
        self.turns: list[Turn] = []
        """Those of this run."""
        self._agent = agent
        self._session = session
        self._tool_run = tool_run
        self._trace = trace
        self._tell = tell
        self._first_turn = first_turn
        self._inputs: dict[str, Any] | None = None
        self._earlier = EarlierCalls()
        self._num_idle_turns = 0

    def run(self, inputs: dict[str, Any], max_iters: int) -> Ending:
        """Take turns until there are outputs.

        Args:
            inputs: what the user said, as JSON values.
            max_iters: most turns before `submit` is forced.

        Raises:
            OutputTruncatedError: forced outputs did not end within their budget.
            ConstraintError: they break a rule that no grammar can hold.
            SignatureError: a validator of the user's own type refused them.
        """
        self._inputs = inputs
        for number in range(max_iters):
            reason = self._session.budget.reason_to_end()
            if reason is None and number and not self._session.has_room_for_turn():
                reason = "context"
            ending = self._take_turn() if reason is None else self._force(reason)
            if ending is not None:
                return ending
            if self._num_idle_turns >= _MAX_IDLE_TURNS:
                return self._force("repeats")
        return self._force("max_iters")

    @property
    def _turn_index(self) -> int:
        return self._first_turn + len(self.turns)

    def _take_turn(self) -> Ending | None:
        session, step_index = self._session, self._num_steps
        session.begin_turn()
        thought, has_ended = session.think(step_index)
        self._trace.thought(step_index, thought)
        if has_ended:
            return self._force("no_call", thought)
        if session.budget.is_out_of_time:
            session.drop_turn()
            self._trace.step_dropped()
            return self._force("time_budget")
        choice = self._agent.rules.choice(step_index, session.trajectory, self._earlier)
        first = session.decide_call(step_index, self._call_id(0), choice)
        if first is None:
            self._trace.call(step_index, None, choice.names)
            forced_by = None if session.chose_submit else "max_tokens"
            session.drop_turn()
            self._trace.step_dropped()
            return self._force(forced_by)
        decided = _Decided(first, self._call_id(0), step_index)
        if first.tool_name == SUBMIT and first.refusal is None:
            try:
                return self._submit(first, thought, None)
            except SignatureError as error:
                self._trace.call(step_index, first, choice.names)
                return self._observe(thought, [decided], [_refused(SUBMIT, error)], [None])
        self._trace.call(step_index, first, choice.names)
        goes_on = first.tool_name not in ("", SUBMIT)
        return self._run_calls(thought, self._further_calls(decided) if goes_on else [decided])

    def _further_calls(self, first: _Decided) -> list[_Decided]:
        """Let the model make more calls in the turn, and return all of it."""
        calls = [first]
        while len(calls) < self._agent.max_calls:
            step_index, call_id = first.step_index + len(calls), self._call_id(len(calls))
            end_of_call = len(self._session.token_ids)
            call = self._session.decide_another(step_index, call_id, len(calls))
            if call is None:
                break
            if self._may_not_follow(call, calls):
                # Greedy models can go on so until the limit; the response to the first is all there is to learn.
                self._session.drop_call(end_of_call)
                break
            self._trace.call(step_index, call)
            calls.append(_Decided(call, call_id, step_index))
        return calls

    def _run_calls(self, thought: Thought, calls: Sequence[_Decided]) -> None:
        """Run the calls side by side, but those that are refused or were made in an earlier turn."""
        repeats = [self._repeated(decided.call) for decided in calls]
        known = [_known_result(decided.call, repeated) for decided, repeated in zip(calls, repeats, strict=True)]
        for decided, repeated in zip(calls, repeats, strict=True):
            if repeated is not None:
                self._tell_start(decided)
        started = time.perf_counter()
        to_run = [decided for decided, result in zip(calls, known, strict=True) if result is None]

        def on_decided(index: int, verdict: Verdict | None) -> None:
            if verdict is not None:
                self._trace.approval(to_run[index].step_index, to_run[index].call, verdict)
            if not isinstance(verdict, Deny):
                started = to_run[index]
                self._tell_start(started._replace(call=started.call.edited(edited_args(verdict))))

        tool_calls = [ToolCall(decided.call.tool_name, decided.call.tool_args) for decided in to_run]
        ran = iter(self._tool_run.run_tools(tool_calls, on_decided))
        results = [next(ran) if result is None else result for result in known]
        self._observe(thought, calls, results, repeats, time.perf_counter() - started)

    def _observe(
        self,
        thought: Thought,
        calls: Sequence[_Decided],
        results: Sequence[ToolResult],
        repeats: Sequence[Step | None],
        tool_s: float = 0.0,
    ) -> None:
        """Append the observations, and keep the turn."""
        self._num_idle_turns = self._num_idle_turns + 1 if all(repeats) else 0
        limit, count_tokens = self._session.observation_room(len(results)), self._agent.lm.count_tokens
        texts = [cut_to_tokens(result.observation, limit, count_tokens) for result in results]
        self._session.observe(texts, tool_s)
        turn_calls: list[TurnCall] = []
        for decided, result, text, repeated in zip(calls, results, texts, repeats, strict=True):
            step = _step(decided, thought if decided is calls[0] else None, result, text, repeated)
            self._session.trajectory.append(step)
            if decided.call.refusal is None and step.tool_name != SUBMIT:
                self._earlier.add(step)
            self._trace.observation(step)
            self._tell(ObservationReady(step.index, text, step.is_error, step.is_repeat, decided.id, step))
            turn_calls.append(_turn_call(decided, text, step))
        self._keep_turn(thought, turn_calls, None)

    def _force(self, forced_by: ForcedBy | None, thought: Thought | None = None) -> Ending:
        call = self._session.force_submit(self._num_steps, self._call_id(0), begins_turn=thought is None)
        return self._submit(call, thought, forced_by)

    def _submit(self, call: Call, thought: Thought | None, forced_by: ForcedBy | None) -> Ending:
        outputs = self._agent.convert_outputs(call.tool_args)
        submitted = TurnCall(id=self._call_id(0), tool_name=SUBMIT, tool_args=call.tool_args, observation=SUBMITTED)
        self._keep_turn(thought, [submitted], call.tool_args)
        return Ending(outputs, forced_by)

    def _keep_turn(self, thought: Thought | None, calls: Sequence[TurnCall], outputs: dict[str, Any] | None) -> None:
        turn = Turn(
            index=self._turn_index,
            inputs=self._inputs,
            thought=thought.text if thought else "",
            thinking=thought.thinking if thought else "",
            calls=tuple(calls),
            outputs=outputs,
        )
        self.turns.append(turn)
        self._inputs = None

    @property
    def _num_steps(self) -> int:
        return len(self._session.trajectory.steps)

    def _call_id(self, position: int) -> str:
        return f"call_{self._turn_index}_{position}"

    def _repeated(self, call: Call) -> Step | None:
        """Return the step of an earlier turn that a call repeats, if it may not run again."""
        if call.refusal is not None:
            return None
        return self._agent.rules.repeated(call.tool_name, call.tool_args, self._earlier)

    def _may_not_follow(self, call: Call, calls: Sequence[_Decided]) -> bool:
        """Whether a call repeats one of its own turn, or one that is masked, and so is cut off."""
        rules = self._agent.rules
        if rules.on_repeat == "run" or self._agent.tools[call.tool_name].repeatable:
            return False
        keys = [call_key(other.call.tool_name, other.call.tool_args) for other in calls]
        if call.refusal is None and call_key(call.tool_name, call.tool_args) in keys:
            return True
        return rules.on_repeat == "mask" and self._repeated(call) is not None

    def _tell_start(self, decided: _Decided) -> None:
        call = decided.call
        self._trace.call_started(decided.step_index, call)
        self._tell(CallStarted(decided.step_index, call.tool_name, call.tool_args, decided.id))


def _refused(tool_name: str, error: BaseException) -> ToolResult:
    return ToolResult(error_text(tool_name or _NO_TOOL, error), True, 0.0)


def _known_result(call: Call, repeated: Step | None) -> ToolResult | None:
    """Return what a call gives without being run; None where it is to be run."""
    if call.refusal is not None:
        return _refused(call.tool_name, call.refusal)
    return ToolResult(repeat_text(repeated), repeated.is_error, 0.0) if repeated is not None else None


def _step(decided: _Decided, thought: Thought | None, result: ToolResult, text: str, repeated: Step | None) -> Step:
    """Return a call as a step; the thought stands in the first step of its turn."""
    outputs = [*([thought.output] if thought else []), decided.call.output]
    return Step(
        index=decided.step_index,
        thought=thought.text if thought else "",
        thinking=thought.thinking if thought else "",
        tool_name=decided.call.tool_name,
        tool_args=decided.call.tool_args,
        observation=text,
        is_error=result.is_error,
        outcome="refused" if decided.call.refusal else repeated.outcome if repeated else result.outcome,
        edited_args=result.args,
        is_repeat=repeated is not None,
        prompt_tokens=sum(output.usage.prompt_tokens for output in outputs),
        cached_tokens=sum(output.usage.cached_tokens for output in outputs),
        completion_tokens=sum(output.usage.completion_tokens for output in outputs),
        model_s=sum(output.timings.prefill_s + output.timings.decode_s for output in outputs),
        tool_s=result.seconds,
    )


def _turn_call(decided: _Decided, text: str, step: Step) -> TurnCall:
    return TurnCall(
        id=decided.id,
        tool_name=step.tool_name,
        tool_args=step.tool_args,
        observation=text,
        is_error=step.is_error,
        is_repeat=step.is_repeat,
    )
