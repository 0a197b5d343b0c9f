"""The runs of a trace file, put together from their records, of whichever version."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, cast

from sureact.agent.trace import read_trace
from sureact.agent.trajectory import Step
from sureact.errors import TraceError
from sureact.outputs import EarlyEnd, StepOutput, StepTimings, TokenUsage


class RecordedPart(NamedTuple):
    """A thought or a call."""

    record: Mapping[str, Any]
    ids: Sequence[int] | None
    """What it added to the context; None where the trace does not tell."""
    output: StepOutput | None
    """What the model generated last; None where the trace does not tell."""
    earlier: list[StepOutput]
    """What it generated before that."""


@dataclass(slots=True)
class RecordedStep:
    """A step as far as it came."""

    index: int
    thought: RecordedPart | None = None
    call: RecordedPart | None = None
    approval: Mapping[str, Any] | None = None
    """What was decided on the call, where somebody was asked."""
    started: Mapping[str, Any] | None = None
    """The record before its tool ran."""
    finished: Step | None = None
    ids: Sequence[int] | None = None
    """What its observation added to the context."""

    @property
    def context_ids(self) -> list[int] | None:
        """What the whole step added to the context; None where the trace does not tell."""
        if self.thought is None:
            return None
        if self.call is None:
            # A step in which no call could be decoded has none in the context either.
            is_without = self.finished is not None and not self.finished.tool_name
            parts = (self.thought.ids, self.ids) if is_without else (None,)
        else:
            parts = (self.thought.ids, self.call.ids, self.ids)
        return [id_ for part in parts for id_ in part or ()] if None not in parts else None


@dataclass(slots=True)
class RecordedRun:
    """One run of a trace file."""

    run_id: str
    records: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    numbers: list[int] = field(default_factory=list[int])
    """Of each record, which one of its file it is, from 1."""
    header: dict[str, Any] = field(default_factory=dict[str, Any])
    prompt: dict[str, Any] | None = None
    steps: dict[int, RecordedStep] = field(default_factory=dict[int, RecordedStep])
    """All steps by index, those that left the context too."""
    truncated: dict[str, Any] | None = None
    """The last record of the context being written anew."""
    since_truncated: int = 0
    """Index of the first step after that."""
    outputs: dict[str, Any] | None = None
    aborted: dict[str, Any] | None = None
    """Why it was aborted, unless it went on since."""
    path: str | Path | None = None
    """The file that it was read from."""

    @property
    def finished_steps(self) -> list[RecordedStep]:
        """Steps with an observation, in order."""
        return [step for _, step in sorted(self.steps.items()) if step.finished is not None]

    @property
    def next_index(self) -> int:
        """Index of the first step without an observation."""
        finished = self.finished_steps
        return finished[-1].index + 1 if finished else 0

    @property
    def state(self) -> str:
        """How it ended, for a person."""
        if self.outputs is not None:
            return f"ended by {self.outputs['termination_reason']}"
        return f"aborted by {self.aborted['error']}" if self.aborted else "not finished"

    def add(self, record: dict[str, Any], number: int | None = None) -> None:
        """Take the next record of the run.

        Args:
            record: what was read.
            number: which one of its file it is; None where the file has this run alone.

        Raises:
            LookupError, TypeError, ValueError, AttributeError: it is damaged.
        """
        self.records.append(record)
        self.numbers.append(number or len(self.records))
        match record["type"]:
            case "header":
                self.header = record
            case "prompt":
                self.prompt = record
            case "thought":
                # A step that begins again leaves what came of it before.
                self.steps[record["step"]] = RecordedStep(record["step"], thought=_part(record))
            case "call":
                self._step(record).call = _part(record)
            case "approval":
                self._step(record).approval = record
            case "call_started":
                self._step(record).started = record
            case "observation":
                step = self._step(record)
                step.finished, step.ids = step_of(record["finished"]), record.get("context_ids")
            case "truncated":
                self.truncated, self.since_truncated = record, self.next_index
            case "resumed":
                self.aborted = None
            case "outputs":
                _require(record, "termination_reason")
                self.outputs = record
            case "aborted":
                _require(record, "error")
                self.aborted = record
            case _:
                raise ValueError("there is no such type")

    def _step(self, record: Mapping[str, Any]) -> RecordedStep:
        return self.steps.setdefault(record["step"], RecordedStep(record["step"]))


@contextmanager
def damage_told(path: str | Path | None, what: str) -> Generator[None]:
    """Tell what a record that lacks something, or holds something else, makes of it.

    Raises:
        TraceError: the work inside found that the record is damaged.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        found = f"it lacks {error}" if isinstance(error, KeyError) else f"{type(error).__name__} {error}"
        where = "" if path is None else f"Trace file {path}: "
        raise TraceError(f"{where}{what} is damaged: {found}.") from error


def recorded_runs(path: str | Path) -> list[RecordedRun]:
    """Return the runs of a trace file, in the order in which they began.

    Raises:
        TraceError: the file cannot be read, or a record lacks something.
    """
    runs: dict[str, RecordedRun] = {}
    for number, record in enumerate(read_trace(path), start=1):
        with damage_told(path, f"record {number}, of type {record['type']!r},"):
            _require(record, "run_id")
            run = runs.setdefault(record["run_id"], RecordedRun(record["run_id"], path=path))
            run.add(record, number)
    return list(runs.values())


def run_of(path: str | Path, run_id: str | None = None) -> RecordedRun:
    """Return the run of that id, or the only one; of several, the only one that is not finished.

    Raises:
        TraceError: there is none, or it is not clear which one is meant.
    """
    runs = recorded_runs(path)
    if run_id is not None:
        found = [run for run in runs if run.run_id.startswith(run_id)]
    else:
        found = [run for run in runs if run.outputs is None] if len(runs) > 1 else runs
    if len(found) != 1:
        listed = "; ".join(f"{run.run_id} ({run.state})" for run in runs) or "none"
        wanted = "a run is needed" if run_id is None else f"one run whose id begins with {run_id!r} is needed"
        raise TraceError(
            f"Trace file {path}: {wanted}, and {len(found)} could be meant. Name one of its runs: {listed}."
        )
    if not found[0].header:
        raise TraceError(f"Trace file {path}: the run {found[0].run_id} has no header.")
    return found[0]


def require_steps(run: RecordedRun) -> RecordedRun:
    """Return a run that can be resumed and replayed, as each of its steps is a call.

    Raises:
        TraceError: it is one of `ReActV2`, with turns of several calls.
    """
    from sureact.agent.formats.qwen_tool_turns import QwenToolTurnsFormat

    if run.header["prompt_format"] == QwenToolTurnsFormat.name:
        raise TraceError(
            f"The run {run.run_id} is one of ReActV2, whose traces can be shown, but not resumed or replayed. Its "
            "conversation goes on from the history of its prediction: agent(history=prediction.history, ...)."
        )
    return run


def step_of(values: Mapping[str, Any]) -> Step:
    """Return a step as it was written; what later versions may add to it is left out."""
    known = {item.name for item in fields(Step)}
    return Step(**{name: value for name, value in values.items() if name in known})


def _require(record: Mapping[str, Any], name: str) -> None:
    """Find now what would be missed only where runs are told apart, far from the record."""
    if not isinstance(record[name], str):
        raise TypeError(f"{name!r} is {record[name]!r}, which is no text")


def _part(record: Mapping[str, Any]) -> RecordedPart:
    generation = record.get("generation")
    earlier = [output_of(other) for other in record.get("earlier_generations", ())]
    return RecordedPart(
        record,
        record.get("context_ids"),
        output_of(generation) if generation else None,
        [output for output in earlier if output is not None],
    )


def output_of(generation: Mapping[str, Any]) -> StepOutput | None:
    """Return a generation as the model gave it; None where token ids were redacted."""
    if generation["token_ids"] is None:
        return None
    stop_reason = generation["stop_reason"]
    return StepOutput(
        text=generation["text"],
        token_ids=tuple(generation["token_ids"]),
        finish_reason=generation["finish_reason"],
        stop_reason=tuple(cast("list[int]", stop_reason)) if isinstance(stop_reason, list) else stop_reason,
        usage=TokenUsage(**generation["usage"]),
        timings=StepTimings(**generation["timings"]),
        forced_indices=tuple(generation["forced"] or ()),
        early_ends=tuple(EarlyEnd(**end) for end in generation.get("early_ends", ())),
    )
