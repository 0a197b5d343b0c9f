"""`sureact trace`: a recorded run in the terminal, as a page, or run once more and compared."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sureact.cli.console import add_output_options, note, output_console, working, write_json, write_result
from sureact.cli.model_options import add_model_options, engine_config, load_engine, unloaded_model
from sureact.cli.recorded_model import recorded_model
from sureact.errors import SureactError, TraceError

if TYPE_CHECKING:
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
    """Show each run as `sureact run` shows it while it goes on.

    Raises:
        TraceError: the file cannot be read, or is damaged.
    """
    from sureact.agent.recorded_run import damage_told
    from sureact.cli.recorded_display import encodable, show_recorded
    from sureact.cli.step_display import StepDisplay

    for number, run in enumerate(_runs(arguments)):
        with damage_told(arguments.file, f"the header of the run {run.run_id}"):
            head = encodable("\n".join(_head(run)))
        with damage_told(arguments.file, f"the end of the run {run.run_id}"):
            end = encodable(f"[{_end(run)}]")
        write_result(("\n" if number else "") + head)
        show_recorded(run, StepDisplay(output_console()))
        write_result(end)


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
    from sureact.agent.recorded_run import require_steps, run_of
    from sureact.agent.replay import recorded_agent, replay, require_token_ids

    # Whatever can be refused is refused before the model is loaded.
    run = require_steps(run_of(arguments.file, arguments.run))
    require_token_ids(run)
    config = engine_config(arguments, recorded_model(arguments.model, run.header))
    agent = recorded_agent(run, unloaded_model(run.header["model"]))
    with load_engine(config) as engine:
        agent.lm = engine
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


def _runs(arguments: argparse.Namespace) -> list[RecordedRun]:
    from sureact.agent.recorded_run import recorded_runs, run_of

    if arguments.run is not None:
        return [run_of(arguments.file, arguments.run)]
    runs = recorded_runs(arguments.file)
    if not runs:
        raise TraceError(f"Trace file {arguments.file} holds no run.")
    return runs


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
