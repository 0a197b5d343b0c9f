"""Where an interrupted run goes on: its context, its open step, and what becomes of a call that had started."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sureact.agent.call_rules import EarlierCalls
from sureact.agent.prediction import Prediction, RunUsage
from sureact.agent.prompt_format import args_json
from sureact.agent.recorded_run import RecordedPart, RecordedRun, RecordedStep, require_steps, run_of, step_of
from sureact.agent.recorded_signature import signature_record
from sureact.agent.redaction import MARK
from sureact.agent.tool import FINISH
from sureact.agent.tool_call import ToolResult
from sureact.agent.tool_run import with_edit_note
from sureact.agent.trace_header import changed_tools, demos_digest, fingerprint_of
from sureact.agent.trajectory import Step, Trajectory
from sureact.errors import ConfigError, ToolExecutionError, TraceError
from sureact.outputs import StepOutput, TokenUsage

if TYPE_CHECKING:
    from sureact.agent.prompt_format import PromptFormat
    from sureact.agent.react import ReAct
    from sureact.agent.tool import Tool
    from sureact.tokens.chat_template import PromptText

_UNTIMED = StepOutput(
    text="", token_ids=(), finish_reason="stop", usage=TokenUsage(prompt_tokens=0, cached_tokens=0, completion_tokens=0)
)
SKIPPED = "The run was interrupted during this call, so whether it took effect is not known. It was not run again."
"""What the model reads in place of a call that is skipped."""


class UnfinishedCall(NamedTuple):
    """A call that had started when the run was interrupted, and may have taken effect."""

    step_index: int
    tool: Tool
    args: dict[str, Any]
    """Those that the tool was run with, as the user had changed them, if at all."""

    @property
    def tool_name(self) -> str:
        """Name of the tool."""
        return self.tool.name


OnUnfinished = Callable[[UnfinishedCall], str]
"""Says what becomes of the call: `"run"` to run it (again), `"skip"`, or another text, which is taken as its result."""


class OpenThought(NamedTuple):
    """A thought that need not be generated again."""

    text: str
    output: StepOutput
    ids: Sequence[int] | PromptText
    """What it adds to the context."""
    thinking: str = ""


class OpenCall(NamedTuple):
    """A call that need not be decided again."""

    tool_name: str
    tool_args: dict[str, Any]
    output: StepOutput
    ids: Sequence[int] | PromptText


@dataclass(slots=True, kw_only=True)
class ResumePoint:
    """What a run that goes on needs of its trace."""

    run_id: str
    path: Path
    inputs: dict[str, Any]
    max_iters: int
    num_records: int = 0
    """Records of the run when it was read."""
    changed_tools: list[str] = field(default_factory=list[str])
    has_prompt: bool = False
    needs_opening: bool = True
    """Whether the opening stands at the start of the context as it is rendered now."""
    context: list[Sequence[int] | PromptText] = field(default_factory=list["Sequence[int] | PromptText"])
    """Parts of the context, after the opening if that is needed."""
    steps: list[Step] = field(default_factory=list[Step])
    """Steps in the context."""
    earlier: EarlierCalls = field(default_factory=EarlierCalls)
    """The calls that were made."""
    next_index: int = 0
    is_finished: bool = False
    """Whether `finish` was called, so that only the outputs are missing."""
    open_thought: OpenThought | None = None
    open_call: OpenCall | None = None
    unfinished: str | None = None
    """What becomes of the call that had started: `run`, or its observation; None if there is none."""
    edited_args: dict[str, Any] | None = None
    """Arguments that the call had started with, where the user had changed them."""
    generations: list[StepOutput] = field(default_factory=list[StepOutput])
    tool_s: float = 0.0

    @property
    def has_open_step(self) -> bool:
        """Whether something of the next step is taken over."""
        return self.open_thought is not None

    def take_thought(self, step_index: int) -> OpenThought | None:
        """Return the thought of the open step, once."""
        thought, self.open_thought = self.open_thought, None
        return thought if step_index == self.next_index else None

    def take_call(self, step_index: int) -> OpenCall | None:
        """Return the call of the open step, once."""
        call, self.open_call = self.open_call, None
        return call if step_index == self.next_index else None

    def edited_args_of(self, step_index: int) -> dict[str, Any] | None:
        """Return the arguments that the call of a step had started with in place of its own."""
        return self.edited_args if step_index == self.next_index else None

    def result_in_place(self, step_index: int) -> ToolResult | None:
        """Return what stands in place of running the call of a step; None to run it."""
        if step_index != self.next_index or self.unfinished is None or self.unfinished == "run":
            return None
        if self.unfinished == SKIPPED:
            result = ToolResult(SKIPPED, True, 0.0, outcome="skipped")
        else:
            result = ToolResult(self.unfinished, False, 0.0)
        return result if self.edited_args is None else with_edit_note(result, self.edited_args)


def resume_point(
    agent: ReAct,
    path: str | Path,
    run_id: str | None,
    inputs: Mapping[str, Any] | None,
    max_iters: int | None,
    on_unfinished: OnUnfinished | None,
    *,
    allow_changed_tools: bool,
) -> ResumePoint | Prediction:
    """Return where a run goes on, or what a finished one gave.

    Raises:
        TraceError: see `ReAct.resume`.
        ConfigError: see `ReAct.resume`.
    """
    run = require_steps(run_of(path, run_id))
    changes = _check_agent(agent, run, allow_changed_tools)
    if run.outputs is not None:
        return _prediction(agent, run)
    point = ResumePoint(
        run_id=run.run_id,
        path=Path(path),
        inputs=_inputs(agent, run, inputs),
        max_iters=max_iters if max_iters is not None else run.header.get("max_iters", agent.max_iters),
        num_records=len(run.records),
        changed_tools=list(changes),
        next_index=run.next_index,
    )
    _fill_context(point, run, agent.prompt_format, keeps_ids=not changes)
    point.earlier = earlier_calls(run, counts_dry=agent.dry_run)
    point.is_finished = any(step.finished and step.finished.tool_name == FINISH for step in run.finished_steps)
    _open_step(point, run, agent, on_unfinished)
    parts = (part for step in run.steps.values() for part in (step.thought, step.call) if part is not None)
    point.generations = [output for part in parts for output in (*part.earlier, part.output) if output is not None]
    point.tool_s = sum(step.finished.tool_s for step in run.finished_steps if step.finished)
    return point


def _check_agent(agent: ReAct, run: RecordedRun, allow_changed_tools: bool) -> dict[str, str]:
    """Return the tools that changed."""
    header = run.header
    _check_same("prompt format", header["prompt_format"], agent.prompt_format.name, "prompt_format=")
    _check_same("model", header["model"], agent.lm.name, "lm=")
    recorded, current = header.get("model_fingerprint"), fingerprint_of(agent.lm)
    if recorded and current:
        _check_same(f"model {agent.lm.name} with the files", recorded[:12], current[:12], "lm=")
    if "signature" in header:
        current_signature = signature_record(agent.signature)
        for part in ("input_types", "output_types", "input_annotations", "output_annotations"):
            if part in header["signature"]:
                _check_same(part.replace("_", " "), header["signature"][part], current_signature[part], "signature")
    if header.get("demos_digest", current := demos_digest(agent)) != current:
        raise ConfigError(
            f"The demos of the agent's predictors are not those that the run {run.run_id} was begun with, and its "
            "prompt holds them. Set them as they were."
        )
    if header.get("is_redacted") and run.outputs is None and not agent.redact:
        raise ConfigError(
            f"The run {run.run_id} keeps secrets out of its trace, and this agent has no redact=, so it would write "
            "them. Resume it from Python, with redact= as it was."
        )
    changes = changed_tools(header, agent.tools)
    if changes and not allow_changed_tools:
        listed = "; ".join(f"{name!r} {change}" for name, change in changes.items())
        raise ConfigError(
            f"Tools changed since the run {run.run_id} was written: {listed}. Resume it with the tools of that time, "
            "or set allow_changed_tools=True."
        )
    return changes


def _check_same(what: str, recorded: object, current: object, option: str) -> None:
    if recorded != current:
        raise ConfigError(
            f"The run was written with the {what} {recorded!r}; this agent has {current!r}, to which the trace means "
            f"nothing. Resume it with an agent of the same {option.rstrip('=')}."
        )


def _inputs(agent: ReAct, run: RecordedRun, given: Mapping[str, Any] | None) -> dict[str, Any]:
    values = {**run.header["inputs"], **(given or {})}
    hidden = [name for name, value in values.items() if MARK in json.dumps(value, default=str)]
    if hidden and not set(hidden) <= set(given or {}):
        raise ConfigError(
            f"The inputs {', '.join(hidden)} were redacted in the trace, so they are not known. Give them again with "
            "inputs={...}."
        )
    return agent.signature.check_inputs(values)


def _fill_context(point: ResumePoint, run: RecordedRun, prompt_format: PromptFormat, *, keeps_ids: bool) -> None:
    """Collect what stands in the context: token ids where the trace has them, else the step as it is rendered."""
    point.has_prompt = run.prompt is not None
    start = run.truncated or run.prompt or {}
    ids = start.get("context_ids") if keeps_ids else None
    if ids is not None:
        point.needs_opening = False
        point.context.append(ids)
    kept = _kept(run)
    if ids is None:
        point.context += [prompt_format.step(step) for step in kept]
    later = [step for step in run.finished_steps if step.index >= run.since_truncated]
    for step in later:
        assert step.finished is not None, "only finished steps are in a context"
        step_ids = step.context_ids
        point.context.append(prompt_format.step(step.finished) if step_ids is None else step_ids)
    point.steps = [*kept, *(step.finished for step in later if step.finished is not None)]


def _kept(run: RecordedRun) -> list[Step]:
    """Return the steps that the context held when it was written anew."""
    if run.truncated is None:
        return []
    if "steps" in run.truncated:
        return [step_of(values) for values in run.truncated["steps"]]
    dropped = {
        index for record in run.records if record["type"] == "truncated" for index in record["dropped_steps"]
    }  # version 1, in which the others were kept as they were
    steps = (step.finished for step in run.finished_steps if step.index < run.since_truncated)
    return [step for step in steps if step is not None and step.index not in dropped]


def earlier_calls(run: RecordedRun, before_index: int | None = None, *, counts_dry: bool = True) -> EarlierCalls:
    """Return the calls that were made, up to a step; those of a dry run were not, for a run that makes calls."""
    earlier = EarlierCalls()
    for step in run.finished_steps:
        is_before = before_index is None or step.index < before_index
        if not is_before or step.finished is None or (step.finished.outcome == "dry_run" and not counts_dry):
            continue
        if step.started is not None or step.finished.outcome == "denied":
            earlier.add(step.finished)
    return earlier


def _open_step(point: ResumePoint, run: RecordedRun, agent: ReAct, on_unfinished: OnUnfinished | None) -> None:
    """Take over what was generated of the step that has no observation, as far as the trace tells it."""
    step = run.steps.get(point.next_index)
    if step is None or step.thought is None:
        return
    if step.started is not None:
        decided_args = step.call.record["tool_args"] if step.call is not None else step.started["tool_args"]
        if decided_args != step.started["tool_args"]:
            point.edited_args = step.started["tool_args"]
        point.unfinished = _verdict(point, step.started, agent, on_unfinished)
        point.open_thought, point.open_call = _started_parts(step, step.thought, step.started, agent.prompt_format)
    elif not point.changed_tools:  # what was thought of other tools is thought again
        point.open_thought = _open_thought(step.thought)
        point.open_call = _open_call(step.call) if point.open_thought and step.call else None


def _open_thought(part: RecordedPart) -> OpenThought | None:
    if part.ids is None or part.output is None:
        return None
    return OpenThought(part.record["text"], part.output, part.ids, part.record.get("thinking", ""))


def _open_call(part: RecordedPart) -> OpenCall | None:
    """Return a call that may run; one that was refused, or did not end, is decided again."""
    record = part.record
    if part.ids is None or part.output is None or record["tool_name"] is None or record["refusal"] is not None:
        return None
    return OpenCall(record["tool_name"], record["tool_args"], part.output, part.ids)


def _started_parts(
    step: RecordedStep, recorded_thought: RecordedPart, started: Mapping[str, Any], prompt_format: PromptFormat
) -> tuple[OpenThought, OpenCall]:
    """Return thought and call of a call that had started, which stand; rendered where the trace has no ids."""
    thought = _open_thought(recorded_thought)
    call = _open_call(step.call) if step.call is not None else None
    if thought is not None and call is not None:
        return thought, call
    decided = started if step.call is None else step.call.record
    text, name, args = recorded_thought.record["text"], decided["tool_name"], decided["tool_args"]
    return (
        OpenThought(text, _UNTIMED, prompt_format.thought(text)),
        OpenCall(name, args, _UNTIMED, prompt_format.call(name, args_json(args))),
    )


def _verdict(
    point: ResumePoint, started: Mapping[str, Any], agent: ReAct, on_unfinished: OnUnfinished | None
) -> str | None:
    """Return what becomes of a call that had started."""
    name, args = started["tool_name"], started["tool_args"]
    tool = agent.tools.get(name)
    if tool is None:
        raise ConfigError(
            f"The run was interrupted during a call of {name!r}, and the agent has no such tool any more."
        )
    is_repeat = point.edited_args is None and agent.rules.repeated(name, args, point.earlier)
    if name == FINISH or is_repeat:
        return "run"  # it has no effect
    if tool.idempotent:
        return _checked_run(tool, args)
    if on_unfinished is None:
        raise TraceError(
            f"The run {point.run_id} was interrupted during step {point.next_index + 1}, in the call "
            f"{name}({args_json(args)}), which may have taken effect. Say what becomes of it with on_unfinished, a "
            "function that returns 'run', 'skip' or the text of its result; or mark a tool that may run twice with "
            "Tool(..., idempotent=True)."
        )
    answer = on_unfinished(UnfinishedCall(point.next_index, tool, args))
    if not isinstance(answer, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"on_unfinished returned {answer!r}; it must return 'run', 'skip' or the text of the result.")
    if answer == "run":
        return _checked_run(tool, args)
    return SKIPPED if answer == "skip" else answer


def _checked_run(tool: Tool, args: Mapping[str, Any]) -> str:
    if MARK in json.dumps(args):
        raise ConfigError(
            f"The arguments of the unfinished call of {tool.name!r} were redacted in the trace, so it cannot run "
            "again. Answer 'skip', or give the text of its result."
        )
    try:
        tool.check(args)
    except ToolExecutionError as error:
        raise ConfigError(f"The unfinished call does not fit the tool as it is now: {error}") from error
    return "run"


def _prediction(agent: ReAct, run: RecordedRun) -> Prediction:
    """Return what a finished run gave."""
    assert run.outputs is not None, "only finished runs have outputs"
    later = [step.finished for step in run.finished_steps if step.index >= run.since_truncated]
    steps = [*_kept(run), *(step for step in later if step is not None)]
    return Prediction(
        agent.convert_outputs(_written_outputs(run.outputs)),
        usage=RunUsage(**run.outputs["usage"]),
        trajectory=Trajectory(steps),
        termination_reason=run.outputs["termination_reason"],
    )


def _written_outputs(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs as the model wrote them: a value of the user's own type may be written otherwise than read."""
    try:
        written = json.loads(record["generation"]["text"])
    except (LookupError, TypeError, ValueError):
        return record["outputs"]
    return written if isinstance(written, dict) else record["outputs"]
