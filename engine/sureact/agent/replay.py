"""Runs a recorded run once more, with its observations in place of the tools, and compares it token by token."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sureact.agent.agent_run import AgentRun
from sureact.agent.call_rules import CallChoice, call_key
from sureact.agent.recorded_run import RecordedRun, RecordedStep, require_steps, run_of
from sureact.agent.recorded_signature import recorded_signature
from sureact.agent.resume import earlier_calls
from sureact.agent.run_trace import token_texts
from sureact.agent.token_limits import TokenLimits
from sureact.errors import ConfigError, OutputTruncatedError, TraceError

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.agent.react import ReAct

_SHOWN_BEFORE = 12
"""Tokens shown before the one that differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first token that is not the recorded one."""

    part: str
    """Where: `prompt`, `outputs`, or such as `the call of step 2`."""
    index: int
    """Position in what the part adds to the context."""
    recorded_id: int | None
    """None where the recorded part ends before it."""
    replayed_id: int | None
    """None where the replayed part ends before it."""
    recorded_text: str
    """Text from a few tokens before on; empty for a model that does not show its vocabulary."""
    replayed_text: str


@dataclass(slots=True)
class ReplayReport:
    """What a replay found."""

    run_id: str
    num_tokens: int = 0
    """Tokens of the context that are the recorded ones."""
    num_steps: int = 0
    """Steps that are the recorded ones, the last one maybe as far as it was recorded."""
    difference: Difference | None = None
    is_whole: bool = False
    """Whether the recorded run was finished, so that its outputs were compared too."""
    changed_masks: list[str] = field(default_factory=list[str])
    """Parts whose masks are not made of what they were: by another version, or another signature or tools."""


class _DifferenceError(Exception):
    pass


def replay(agent: ReAct, path: str | Path, *, run_id: str | None = None) -> ReplayReport:
    """Run the recorded inputs again, each call answered by the recorded observation. No tool runs, nothing is written.

    It stops at the first token that differs.

    Args:
        agent: an agent with the tools, signature, format and model of the run; `recorded_agent` makes one.
        path: the trace file.
        run_id: as in `ReAct.resume`.

    Raises:
        TraceError: the file cannot be read, or has no token ids: it is of version 1, or parts were redacted.
        SureactError: see `ReAct.__call__`.
    """
    run = require_steps(run_of(path, run_id))
    require_token_ids(run)
    report = ReplayReport(run.run_id)
    replayed = _Replay(agent, run, report)
    try:
        with suppress(_DifferenceError):
            replayed.run()
    finally:
        replayed.close()
    return report


def require_token_ids(run: RecordedRun) -> None:
    """Refuse a run that cannot be compared token by token.

    Raises:
        TraceError: it has no token ids: it is of version 1, stopped before its first prompt, or parts were redacted.
    """
    parts = [part.ids for step in run.steps.values() for part in (step.thought, step.call) if part is not None]
    parts += [step.ids for step in run.finished_steps]
    parts += [record.get("context_ids") for record in (run.prompt or {}, run.outputs) if record is not None]
    if "limits" not in run.header or any(ids is None for ids in parts):
        raise TraceError(
            f"The run {run.run_id} cannot be replayed: its trace lacks token ids. It is of version 1, stopped before "
            "its first prompt, or was redacted."
        )


def recorded_agent(run: RecordedRun, lm: LanguageModel) -> ReAct:
    """Return an agent as the header of a run describes it; its tools cannot be called.

    Raises:
        TraceError: the trace is of version 1, which does not tell the signature, or the run one of `ReActV2`; or the
            signature has types that a text cannot name.
        SignatureError: the same, in a trace that only tells how types were shown to the model.
    """
    from sureact.agent.react import ReAct
    from sureact.agent.tool import FINISH

    require_steps(run)
    if "signature" not in run.header:
        raise TraceError(f"The run {run.run_id} is of trace version 1, which does not tell its signature.")
    signature = recorded_signature(run.header["signature"])
    tools = [_tool_of(tool) for tool in run.header["tools"] if tool["name"] != FINISH]
    names = ("max_iters", "on_repeat", "prompt_format", "require_tools")
    options = {name: run.header[name] for name in names if name in run.header}
    options["finish_after_error"] = run.header.get("finish_after_error", True)
    agent = ReAct(signature, tools, lm=lm, limits=TokenLimits.recorded(run.header), **options)
    demos = run.header.get("demos", {})
    agent.react.demos, agent.extract.predict.demos = demos.get("react", []), demos.get("extract", [])
    for name, learned in run.header.get("predictors", {}).items():
        predictor = agent.react if name == "react" else agent.extract.predict
        fields = predictor.signature.with_instructions(learned["instructions"])
        predictor.signature = fields.with_descriptions(learned["descriptions"])
    return agent


def _tool_of(recorded: dict[str, Any]) -> Any:
    from sureact.agent.tool import Tool

    def not_run(**_: object) -> None:
        raise ConfigError(f"The tool {recorded['name']!r} is only recorded, so it cannot be called.")

    return Tool(
        not_run,
        name=recorded["name"],
        desc=recorded["description"],
        args=recorded["parameters"],
        title=recorded.get("title"),
    )


class _Replay:
    """One replay on its own session."""

    def __init__(self, agent: ReAct, run: RecordedRun, report: ReplayReport) -> None:
        self._agent = agent
        self._recorded = run
        self._report = report
        limits = TokenLimits.recorded(run.header)
        inputs = agent.signature.check_inputs(run.header["inputs"])
        self._run = AgentRun(agent.lm, agent.prompt_format, inputs, limits, lambda event: None)
        self._start = 0

    def run(self) -> None:
        """Raise `_DifferenceError` at the first token that differs."""
        assert self._recorded.prompt is not None
        self._compare("prompt", self._recorded.prompt["context_ids"])
        for _, step in sorted(self._recorded.steps.items()):
            self._replay_step(step)
            self._report.num_steps += 1
        recorded = self._recorded.outputs
        if recorded is None:
            return
        # Outputs that do not end differ from those that were recorded, which is said below.
        with suppress(OutputTruncatedError):
            self._run.extract(self._agent._extraction, self._agent.truncate_trajectory)  # pyright: ignore[reportPrivateUsage]
        self._compare_masks("outputs", recorded["generation"])
        self._compare("outputs", recorded["context_ids"])
        self._report.is_whole = True

    def close(self) -> None:
        """Give the session's memory back."""
        self._run.close()

    def _replay_step(self, step: RecordedStep) -> None:
        run, name = self._run, f"step {step.index + 1}"
        run.make_room_for_step(self._agent.truncate_trajectory)
        run.begin_step()
        self._start = len(run.token_ids)
        if step.thought is None:
            return
        run.think(step.index)
        self._compare(f"the thought of {name}", step.thought.ids or ())
        if step.call is None and step.finished is None:
            if self._recorded.outputs is not None:  # the time was over, so the step was dropped
                run.drop_open_step()
                self._start = len(run.token_ids)
            return
        call = run.decide_call(step.index, self._choice(step))
        if step.call is not None and run.generations:
            self._compare_masks(f"the call of {name}", step.call.record["generation"])
        self._compare(f"the call of {name}", step.call.ids or () if step.call else ())
        if call is None:
            run.drop_open_step()
            self._start = len(run.token_ids)
        if step.finished is not None:
            run.observe(step.finished)
            self._compare(f"the observation of {name}", step.ids or ())

    def _choice(self, step: RecordedStep) -> CallChoice:
        """Return what could be called, as the trace tells it: rules that are functions need not be there.

        A call that was made before is taken back as it was then, unless it is the one that stood in the end.
        """
        record = step.call.record if step.call else {}
        names = tuple(record.get("names") or self._agent.tools)
        if self._recorded.header.get("on_repeat") != "mask":
            return CallChoice(names)
        earlier = earlier_calls(self._recorded, step.index)
        stood = call_key(record["tool_name"], record["tool_args"]) if record.get("tool_name") else None
        return CallChoice(
            names, lambda name, args: call_key(name, args) != stood and earlier.find(name, args) is not None
        )

    def _compare(self, part: str, recorded: Sequence[int]) -> None:
        replayed = list(self._run.token_ids[self._start :])
        self._start += len(replayed)
        pairs = zip(recorded, replayed, strict=False)
        index = next((index for index, (old, new) in enumerate(pairs) if old != new), min(len(recorded), len(replayed)))
        self._report.num_tokens += index
        if index == len(recorded) == len(replayed):
            return
        self._report.difference = Difference(
            part=part,
            index=index,
            recorded_id=recorded[index] if index < len(recorded) else None,
            replayed_id=replayed[index] if index < len(replayed) else None,
            recorded_text=self._text(recorded, index),
            replayed_text=self._text(replayed, index),
        )
        raise _DifferenceError

    def _compare_masks(self, part: str, generation: dict[str, Any]) -> None:
        constraint = self._run.generations[-1].constraint
        digest = hashlib.sha256(constraint.cache_key.encode()).hexdigest() if constraint else None
        if digest != generation["constraint"]:
            self._report.changed_masks.append(part)

    def _text(self, ids: Sequence[int], index: int) -> str:
        vocabulary = getattr(self._agent.lm, "vocabulary", None)
        if vocabulary is None:
            return ""
        shown = ids[max(0, index - _SHOWN_BEFORE) : index + _SHOWN_BEFORE]
        known = [id_ for id_ in shown if id_ < len(vocabulary.token_bytes)]
        return "".join(token_texts(known, vocabulary.token_bytes))
