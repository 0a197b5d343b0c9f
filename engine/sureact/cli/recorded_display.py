"""Shows a recorded run as `sureact run` shows one that goes on, with what the trace tells beyond that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sureact.agent.events import CallDelta, ContextTruncated, EndedEarly, ObservationReady, OutputDelta, ThoughtDelta
from sureact.agent.recorded_run import damage_told
from sureact.agent.resume import SKIPPED
from sureact.outputs import EarlyEnd

if TYPE_CHECKING:
    from sureact.agent.recorded_run import RecordedRun
    from sureact.cli.step_display import StepDisplay

_APPROVALS = {"allow": "Allowed", "deny": "Denied", "edit": "Edited"}


def show_recorded(run: RecordedRun, display: StepDisplay) -> None:
    """Show what was thought, called, taken back, approved, observed and answered, and where the run went on.

    Raises:
        TraceError: a record is damaged.
    """
    decided = {record["step"] for record in run.records if record["type"] == "call"}
    for number, record in zip(run.numbers, run.records, strict=True):
        with damage_told(run.path, f"record {number}, of type {record['type']!r},"):
            if record["type"] != "call_started" or record["step"] not in decided:  # in version 1 it tells the call
                _show(record, display)
    display.close()


def encodable(text: str) -> str:
    """Return a text without the halves of UTF-16 pairs, which no stream takes."""
    return text.encode(errors="replace").decode()


def _show(record: Mapping[str, Any], display: StepDisplay) -> None:
    match record["type"]:
        case "thought":
            if record.get("thinking"):
                display(ThoughtDelta(record["step"], encodable(record["thinking"]), is_thinking=True))
            display(ThoughtDelta(record["step"], encodable(record["text"])))
        case "call":
            _show_call(record, display)
        case "call_started":
            display(CallDelta(record["step"], encodable(f"{record['tool_name']} {_json(record['tool_args'])}")))
        case "approval":
            said = record["reason"] or (_json(record["tool_args"]) if record["decision"] == "edit" else "the call")
            verdict = _APPROVALS.get(record["decision"], encodable(str(record["decision"])))
            display.note(verdict, encodable(said), record["step"])
        case "observation":
            step = record["finished"]
            is_error, is_repeat = step.get("is_error", False), step.get("is_repeat", False)
            display(ObservationReady(record["step"], encodable(step["observation"]), is_error, is_repeat))
        case "truncated":
            display(ContextTruncated(tuple(record["dropped_steps"]), 0, tuple(record.get("trimmed_steps", ()))))
        case "resumed":
            display.note("Resumed", encodable(f"with step {record['step'] + 1}{_unfinished(record['unfinished'])}"))
        case "outputs":
            display(OutputDelta(encodable(_json(record["outputs"]))))
        case _:
            pass
    for end in record.get("generation", {}).get("early_ends", ()):
        pointer = end["pointer"] and encodable(end["pointer"])
        display(EndedEarly(record["type"], record.get("step"), EarlyEnd(end["reason"], end["num_tokens"], pointer)))


def _show_call(record: Mapping[str, Any], display: StepDisplay) -> None:
    """Show a call, after those that were taken back for it."""
    for position, taken_back in enumerate(record.get("earlier_generations", ())):
        display(CallDelta(record["step"], encodable(taken_back["text"]), f"taken-back-{position}"))
        display.note("Taken back", "it repeats an earlier call; another tool is decided on")
    display(CallDelta(record["step"], encodable(record["generation"]["text"]), f"call-{record['step']}"))
    if record["tool_name"] is None:
        display.note("Cut off", "it did not end within its tokens")


def _unfinished(answer: str | None) -> str:
    if answer is None:
        return ""
    told = {"run": "is run again", SKIPPED: "is skipped"}
    return f"; the call that was interrupted {told.get(answer, f'is given the result {answer!r}')}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
