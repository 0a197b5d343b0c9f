"""`sureact trace`: a recorded run in the terminal, as a page, or run once more and compared."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sureact.cli.console import add_output_options, note, output_console, working, write_json, write_result
from sureact.cli.model_options import add_model_options, engine_config, load_engine
from sureact.cli.recorded_model import recorded_model
from sureact.errors import SureactError, TraceError

if TYPE_CHECKING:
    from sureact.agent.events import Event
    from sureact.agent.recorded_run import RecordedRun
    from sureact.agent.replay import ReplayReport


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.description = "Shows what an agent wrote into its trace file."
    subparsers = parser.add_subparsers(metavar="WHAT", required=True)
    show = _add(subparsers, "show", "show the runs of a file in the terminal")
    add_output_options(show)
    show.set_defaults(command=show_command)
    html = _add(subparsers, "html", "write the runs of a file as one self-contained page")
    html.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="file to write, or - for standard output (default: FILE.html)"
    )
    add_output_options(html)
    html.set_defaults(command=html_command)
    replay = _add(subparsers, "replay", "run it again with the recorded observations, and find what differs")
    replay.description = (
        "Runs a recorded run again with its observations in place of the tools, and compares token by token. Exit "
        "code 1 if a token differs."
    )
    add_model_options(replay, default_words="the model of the trace")
    add_output_options(replay, json_help="what was compared, and the first difference")
    replay.set_defaults(command=replay_command)


def _add(subparsers: Any, name: str, summary: str) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    parser.add_argument("file", type=Path, metavar="FILE", help="trace file")
    parser.add_argument(
        "--run", metavar="ID", help="the run, or how its id begins (default: all; to replay, the one that is there)"
    )
    return parser


def show_command(arguments: argparse.Namespace) -> None:
    """Show each run as `sureact run` shows it while it goes on."""
    from sureact.agent.events import AnswerReady
    from sureact.cli.step_display import StepDisplay

    for number, run in enumerate(_runs(arguments)):
        write_result(("\n" if number else "") + _encodable("\n".join(_head(run))))
        display = StepDisplay(output_console())
        for event in shown_events(run):
            display(event)
        display(AnswerReady({}, ""))  # ends the line
        write_result(_encodable(f"[{_end(run)}]"))


def html_command(arguments: argparse.Namespace) -> None:
    """Write the page.

    Raises:
        TraceError: the page cannot be written.
    """
    from sureact.page.trace_page import trace_page

    page = trace_page([record for run in _runs(arguments) for record in run.records])
    output = arguments.output or arguments.file.with_name(f"{arguments.file.name}.html")
    if str(output) == "-":
        sys.stdout.write(page)
        return
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise TraceError(f"The page {output} cannot be written: {error.strerror}. Name another with -o.") from error
    write_result(str(output))


def replay_command(arguments: argparse.Namespace) -> None:
    """Run again and compare.

    Raises:
        SureactError: a token differs.
    """
    from sureact.agent.recorded_run import run_of
    from sureact.agent.replay import recorded_agent, replay

    # Whatever can be refused is refused before the model is loaded.
    run = run_of(arguments.file, arguments.run)
    config = engine_config(arguments, recorded_model(arguments.model, run.header))
    with load_engine(config) as engine:
        agent = recorded_agent(run, engine)
        with working("Replaying"):
            report = replay(agent, arguments.file, run_id=run.run_id)
    for part in report.changed_masks:
        note(f"Note: the masks of {part} are not made of what they were.")
    if arguments.json:
        write_json(asdict(report))
    elif report.difference is None:
        write_result(_compared(report))
    if report.difference is not None:
        raise SureactError(_difference(report))


def shown_events(run: RecordedRun) -> Iterator[Event]:
    """Yield what the run told while it went on, as far as it is recorded."""
    from sureact.agent.events import CallDelta, ContextTruncated, ObservationReady, OutputDelta, ThoughtDelta

    decided = {record["step"] for record in run.records if record["type"] == "call"}
    for record in run.records:
        match record["type"]:
            case "thought":
                yield ThoughtDelta(record["step"], _encodable(record["text"]))
            case "call":
                yield CallDelta(record["step"], _encodable(record["generation"]["text"].strip()))
            case "call_started" if record["step"] not in decided:  # version 1
                args = json.dumps(record["tool_args"], ensure_ascii=False)
                yield CallDelta(record["step"], _encodable(f"{record['tool_name']} {args}"))
            case "observation":
                step = record["finished"]
                is_error, is_repeat = step.get("is_error", False), step.get("is_repeat", False)
                yield ObservationReady(record["step"], _encodable(step["observation"]), is_error, is_repeat)
            case "truncated":
                yield ContextTruncated(tuple(record["dropped_steps"]), 0, tuple(record.get("trimmed_steps", ())))
            case "outputs":
                yield OutputDelta(_encodable(json.dumps(record["outputs"], ensure_ascii=False)))
            case _:
                pass


def _runs(arguments: argparse.Namespace) -> list[RecordedRun]:
    from sureact.agent.recorded_run import recorded_runs, run_of

    if arguments.run is not None:
        return [run_of(arguments.file, arguments.run)]
    runs = recorded_runs(arguments.file)
    if not runs:
        raise TraceError(f"Trace file {arguments.file} holds no run.")
    return runs


def _encodable(text: str) -> str:
    """Return a text without the halves of UTF-16 pairs, which no stream takes."""
    return text.encode(errors="replace").decode()


def _head(run: RecordedRun) -> list[str]:
    header = run.header
    if not header:
        return [f"Run {run.run_id} (its header is missing)"]
    began = f"{datetime.fromtimestamp(header['time_s']).astimezone():%Y-%m-%d %H:%M:%S %z}"
    inputs = json.dumps(header["inputs"], ensure_ascii=False)
    return [
        f"Run {run.run_id}",
        f"  {began}, {header['model']}, format {header['prompt_format']}, sureact {header['sureact_version']}",
        f"  Inputs: {inputs}",
    ]


def _end(run: RecordedRun) -> str:
    num_steps = len(run.finished_steps)
    text = f"{num_steps} step{'' if num_steps == 1 else 's'}, {run.state}"
    if run.aborted is not None:
        return f"{text}: {run.aborted['message']}" if run.aborted["message"] else text
    if run.outputs is None:
        return text
    usage = run.outputs["usage"]
    return f"{text}; {usage['completion_tokens']:,} tokens generated; {usage['seconds']:.1f} s"


def _compared(report: ReplayReport) -> str:
    extent = "the whole run" if report.is_whole else "as far as it was recorded"
    return f"The same {report.num_tokens:,} tokens, {report.num_steps} steps, {extent}."


def _difference(report: ReplayReport) -> str:
    found = report.difference
    assert found is not None, "only a difference is told"
    recorded = "no more" if found.recorded_id is None else f"id {found.recorded_id}"
    replayed = "no more" if found.replayed_id is None else f"id {found.replayed_id}"
    return (
        f"After {report.num_tokens:,} equal tokens, token {found.index} of {found.part} differs: recorded {recorded}, "
        f"now {replayed}.\nRecorded: {found.recorded_text!r}\nNow:      {found.replayed_text!r}"
    )
