"""What is told of an agent's run. The answer is the sum of its events, streamed or not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sureact.agent.events import (
    AnswerReady,
    CallDelta,
    CallStarted,
    CallWithdrawn,
    ContextTruncated,
    EndedEarly,
    ObservationReady,
    OutputDelta,
    RunStarted,
    ThoughtDelta,
)
from sureact.agent.extraction import REASONING
from sureact.agent.prediction import RunUsage
from sureact.agent.prompt_format import THINK_CLOSE
from sureact.server.guard_fields import early_end_object
from sureact.server.text_shaping import TextUpTo, TrimmedText

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sureact.agent.events import Event
    from sureact.agent.trajectory import Step
    from sureact.outputs import StepOutput

AgentEvent = dict[str, Any]
"""An event as it is sent."""


class RunAnswer:
    """The answer of a run, from what its agent tells."""

    def __init__(self, run_id: str, model: str, inputs: Mapping[str, Any], after_thought: str) -> None:
        """Begin it.

        Args:
            run_id: the run, in every event.
            model: name of the model as clients know it.
            inputs: as they were given.
            after_thought: what may stand behind a thought and is no part of it.
        """
        self._head = {"id": run_id, "object": "agent.run", "created": int(time.time()), "model": model}
        self._inputs = dict(inputs)
        self._after_thought = after_thought
        self._open: _OpenStep | None = None
        self._trajectory: list[dict[str, Any]] = []
        self._early_ends: list[dict[str, Any]] = []
        self._outputs: dict[str, Any] = {}
        self._termination_reason = ""
        self._usage = RunUsage()
        self._thought_tokens = 0

    def add(self, event: Event) -> Iterator[AgentEvent]:
        """Add what the agent tells; yield what is told of it."""
        match event:
            case RunStarted(tool_names=names, max_iters=max_iters):
                head = {name: self._head[name] for name in ("created", "model")}
                yield self._event("run.started", **head, inputs=self._inputs, tools=names, max_iters=max_iters)
            case ThoughtDelta(step_index=index, text=text, is_thinking=is_thinking):
                yield from self._thought_deltas(self._step(index).push(text, is_thinking=is_thinking))
            case CallDelta(step_index=index, text=text):
                yield self._event("call.delta", step_index=index, delta=text)
            case EndedEarly(part=part, step_index=index, end=end):
                self._early_ends.append(early_end_object(end, part=part, step_index=index))
            case CallWithdrawn(step_index=index, tool_name=name, tool_args=args):
                withdrawn = {"part": "call", "step_index": index}
                self._early_ends = [end for end in self._early_ends if not withdrawn.items() <= end.items()]
                yield self._event("call.withdrawn", step_index=index, tool_name=name, tool_args=args)
            case CallStarted(step_index=index, tool_name=name, tool_args=args):
                yield self._event("call.started", step_index=index, tool_name=name, tool_args=args)
            case ObservationReady(step=step) if step is not None:
                yield self._completed(step)
            case ContextTruncated(dropped_steps=dropped, trimmed_steps=trimmed, rebuilt_tokens=tokens):
                steps = {"dropped_steps": dropped, "trimmed_steps": trimmed}
                yield self._event("context.truncated", **steps, rebuilt_tokens=tokens)
            case OutputDelta(text=text):
                yield from self._dropped()
                yield self._event("output.delta", delta=text)
            case AnswerReady(outputs=outputs, termination_reason=reason):
                yield from self._dropped()
                self._outputs, self._termination_reason = outputs, reason
            case _:
                pass

    def add_output(self, output: StepOutput, *, is_constrained: bool) -> Iterator[AgentEvent]:
        """Add a text of the model that has ended; yield what of it is told only then."""
        self._usage.add(output)
        self._thought_tokens += 0 if is_constrained else output.usage.completion_tokens
        if self._open is not None and not is_constrained:
            yield from self._thought_deltas(self._open.end_text())

    @property
    def whole(self) -> dict[str, Any]:
        """The answer, once the run is over."""
        from pydantic_core import to_jsonable_python

        outputs: dict[str, Any] = to_jsonable_python(self._outputs, fallback=str)
        return self._head | {
            "outputs": {name: value for name, value in outputs.items() if name != REASONING},
            "reasoning": outputs[REASONING],
            "trajectory": self._trajectory,
            "termination_reason": self._termination_reason,
            "early_ends": self._early_ends,
            "usage": self._usage_object,
        }

    @property
    def _usage_object(self) -> dict[str, Any]:
        usage = self._usage
        return {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": self._thought_tokens},
            "num_generations": usage.num_generations,
            "tool_seconds": round(usage.tool_s, 6),
        }

    @property
    def completed(self) -> AgentEvent:
        """The last event."""
        return self._event("run.completed", run=self.whole)

    def error_event(self, body: Mapping[str, Any]) -> AgentEvent:
        """Return the event that tells an error, whose body stands in an answer otherwise."""
        return self._event("error", **body)

    def _step(self, index: int) -> _OpenStep:
        if self._open is None or self._open.index != index:
            self._open = _OpenStep(index, self._after_thought)
        return self._open

    def _thought_deltas(self, pieces: Iterator[tuple[str, str]]) -> Iterator[AgentEvent]:
        for kind, text in pieces:
            assert self._open is not None, "a piece of a thought belongs to a step"
            yield self._event(f"{kind}.delta", step_index=self._open.index, delta=text)

    def _completed(self, step: Step) -> AgentEvent:
        opened = self._step(step.index)
        self._open = None
        self._usage.tool_s += step.tool_s
        told = {
            "step_index": step.index,
            "thought": opened.thought,
            "thinking": opened.thinking,
            "tool_name": step.tool_name,
            "tool_args": step.tool_args,
            "observation": step.observation,
            "outcome": step.outcome,
            "is_error": step.is_error,
            "is_repeat": step.is_repeat,
            "tool_seconds": round(step.tool_s, 6),
        }
        self._trajectory.append(told)
        return self._event("step.completed", step_index=step.index, step=told)

    def _dropped(self) -> Iterator[AgentEvent]:
        """Tell that a step did not come to its end, if that is so."""
        if self._open is not None:
            yield self._event("step.dropped", step_index=self._open.index)
            self._open = None

    def _event(self, kind: str, **fields: Any) -> AgentEvent:
        return {"type": kind, "id": self._head["id"], **fields}


class _OpenStep:
    """The thought of a step that is not finished, and what is told of it."""

    def __init__(self, index: int, after_thought: str) -> None:
        self.index = index
        self.thought = ""
        self.thinking = ""
        self._after_thought = after_thought
        self._text = TextUpTo(after_thought)
        self._trimmed = TrimmedText()
        """Of the thought, which may be interrupted by a part between tags."""
        self._trimmed_thinking: TrimmedText | None = None
        """Of what stands between tags, where the text does that is generated now."""
        self._separator = ""

    def push(self, text: str, *, is_thinking: bool) -> Iterator[tuple[str, str]]:
        """Add text; yield pieces with their kinds."""
        if is_thinking and self._trimmed_thinking is None:
            self._text, self._trimmed_thinking = TextUpTo(THINK_CLOSE), TrimmedText()
            self._separator = "\n" if self.thinking else ""
        yield from self._pieces(self._text.push(text))

    def end_text(self) -> Iterator[tuple[str, str]]:
        """A generation has ended: what comes next is another part."""
        yield from self._pieces(self._text.end())
        self._text, self._trimmed_thinking = TextUpTo(self._after_thought), None

    def _pieces(self, text: str) -> Iterator[tuple[str, str]]:
        if self._trimmed_thinking is None:
            if text := self._trimmed.push(text):
                self.thought += text
                yield "thought", text
        elif text := self._trimmed_thinking.push(text):
            text, self._separator = self._separator + text, ""
            self.thinking += text
            yield "thinking", text
