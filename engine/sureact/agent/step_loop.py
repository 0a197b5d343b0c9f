"""The steps of a run: think, decide on a call, run it, observe; until `finish` or a reason to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sureact.agent.approval import Deny, Verdict, edited_args
from sureact.agent.call_rules import EarlierCalls
from sureact.agent.events import CallStarted, Event, ObservationReady
from sureact.agent.observation import cut_to_tokens, error_text, repeat_text
from sureact.agent.tool import FINISH
from sureact.agent.tool_call import ToolResult
from sureact.agent.tool_run import with_edit_note
from sureact.agent.trajectory import Step
from sureact.errors import PromptTooLongError

if TYPE_CHECKING:
    from sureact.agent.agent_context import Call, Thought
    from sureact.agent.agent_run import AgentRun
    from sureact.agent.call_rules import CallRules
    from sureact.agent.context_room import Truncate
    from sureact.agent.prediction import TerminationReason
    from sureact.agent.resume import ResumePoint
    from sureact.agent.run_trace import RunTrace
    from sureact.agent.tool_run import ToolRun

# In place of a tool's name, where decoding found no call.
_NO_TOOL = "the call"


class StepLoop:
    """The loop of one run."""

    def __init__(
        self,
        run: AgentRun,
        rules: CallRules,
        tool_run: ToolRun,
        trace: RunTrace,
        tell: Callable[[Event], None],
        resumed: ResumePoint | None = None,
    ) -> None:
        """Take what a run is made of.

        Args:
            run: its session.
            rules: what may be called.
            tool_run: runs the tools.
            trace: told of each part.
            tell: takes events.
            resumed: where the run goes on, if it was interrupted.
        """
        self._run = run
        self._rules = rules
        self._tool_run = tool_run
        self._trace = trace
        self._tell = tell
        self._resumed = resumed
        self._earlier = resumed.earlier if resumed else EarlierCalls()

    def take_steps(self, max_iters: int, truncate: Truncate) -> TerminationReason:
        """Take steps up to the index `max_iters`.

        Raises:
            PromptTooLongError: there is no room for the first step.
            SureactError: see `ReAct`.
        """
        if self._resumed and self._resumed.is_finished:
            return "finish"
        for index in range(self._resumed.next_index if self._resumed else 0, max_iters):
            reason = self._reason_to_end(truncate) or self._take_step(index)
            if reason is not None:
                return reason
        return "max_iters"

    def _reason_to_end(self, truncate: Truncate) -> TerminationReason | None:
        """Make room for a step; or return why none is begun."""
        run = self._run
        # What a step was interrupted in is done already, or must not be lost: a call may have taken effect.
        is_open = self._resumed is not None and self._resumed.has_open_step
        reason = None if is_open else run.budget.reason_to_end()
        if reason is not None:
            return reason
        try:
            run.make_room_for_step(truncate)
        except PromptTooLongError:
            if not run.trajectory.steps:
                raise
            return "context"
        return None

    def _take_step(self, index: int) -> TerminationReason | None:
        """Take a step; return why it was the last one, if it was."""
        run, trace = self._run, self._trace
        run.begin_step()
        thought = run.think(index)
        trace.thought(index, thought)
        if run.budget.is_out_of_time:
            run.drop_open_step()
            trace.step_dropped()
            return "time_budget"
        choice = self._rules.choice(index, run.trajectory, self._earlier)
        call = run.decide_call(index, choice)
        trace.call(index, call, choice.names)
        if call is None:
            run.drop_open_step()
            trace.step_dropped()
            return "max_tokens"
        step = self._step(index, thought, call)
        run.observe(step)
        trace.observation(step)
        self._tell(ObservationReady(index, step.observation, step.is_error, step.is_repeat, step=step))
        return "finish" if call.tool_name == FINISH else None

    def _step(self, index: int, thought: Thought, call: Call) -> Step:
        """Run the call, unless it is refused, was run before or has an observation in its place; return the step."""
        run = self._run
        repeated = None if call.refusal else self._rules.repeated(call.tool_name, call.tool_args, self._earlier)
        result = self._result(index, call, repeated)
        usages = (thought.output.usage, call.output.usage)
        timings = (thought.output.timings, call.output.timings)
        step = Step(
            index=index,
            thought=thought.text,
            thinking=thought.thinking,
            tool_name=call.tool_name,
            tool_args=call.tool_args,
            observation=cut_to_tokens(result.observation, run.observation_limit, run.count_tokens),
            is_error=result.is_error,
            outcome="refused" if call.refusal else repeated.outcome if repeated else result.outcome,
            edited_args=result.args,
            is_repeat=repeated is not None,
            prompt_tokens=sum(usage.prompt_tokens for usage in usages),
            cached_tokens=sum(usage.cached_tokens for usage in usages),
            completion_tokens=sum(usage.completion_tokens for usage in usages),
            model_s=sum(timing.prefill_s + timing.decode_s for timing in timings),
            tool_s=result.seconds,
        )
        if call.refusal is None:
            self._earlier.add(step)
        return step

    def _result(self, index: int, call: Call, repeated: Step | None) -> ToolResult:
        if call.refusal is not None:
            return ToolResult(error_text(call.tool_name or _NO_TOOL, call.refusal), True, 0.0)
        in_place = self._resumed.result_in_place(index) if self._resumed else None
        if in_place is not None:
            return in_place
        if repeated is not None:
            self._tell_start(index, call)
            return ToolResult(repeat_text(repeated), repeated.is_error, 0.0)
        # What had started runs again as it had started, and is decided on as that.
        started_args = self._resumed.edited_args_of(index) if self._resumed else None
        started = call.edited(started_args)

        def on_decided(verdict: Verdict | None) -> None:
            if verdict is not None:
                self._trace.approval(index, started, verdict)
            if not isinstance(verdict, Deny):
                self._tell_start(index, started.edited(edited_args(verdict)))

        result = self._tool_run.run(started.tool_name, started.tool_args, on_decided)
        is_noted = started_args is None or result.args is not None or result.outcome == "denied"
        return result if is_noted else with_edit_note(result, started.tool_args)

    def _tell_start(self, index: int, call: Call) -> None:
        self._trace.call_started(index, call)
        self._tell(CallStarted(index, call.tool_name, call.tool_args))
