"""`sureact run --resume`: goes on with a recorded run, and asks what becomes of a call that was interrupted."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sureact.cli.console import ask, note
from sureact.cli.recorded_model import recorded_model
from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.agent.prediction import Prediction
    from sureact.agent.react import ReAct
    from sureact.agent.resume import UnfinishedCall
    from sureact.cli.step_display import StepDisplay

_QUESTION = "Run it again, skip it, or give its result? [run/skip/text] "


def add_resume_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run that goes on."""
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="go on with the run of this trace file; signature, format and limits are those of the run",
    )
    parser.add_argument(
        "--run", metavar="ID", help="with --resume: the run, or how its id begins, where there are several"
    )
    parser.add_argument(
        "--on-unfinished",
        metavar="WHAT",
        help="with --resume: what becomes of a call that was interrupted: run, skip, or the text of its result "
        "(default: ask on the terminal)",
    )
    parser.add_argument(
        "--allow-changed-tools", action="store_true", help="with --resume: go on although tools have changed"
    )


def check_resume_options(arguments: argparse.Namespace) -> None:
    """Judge the options that go with `--resume`, and those that do not.

    Raises:
        ConfigError: an option was given that only a resumed run has, or that such a run has already.
    """
    if arguments.resume is None:
        given = {"--run": arguments.run, "--on-unfinished": arguments.on_unfinished}
        names = [name for name, value in given.items() if value is not None]
        names += ["--allow-changed-tools"] if arguments.allow_changed_tools else []
        if names:
            raise ConfigError(f"{', '.join(names)} goes with --resume FILE, the trace of the run that is to go on.")
        return
    if arguments.question is not None:
        raise ConfigError("A resumed run has its question already; leave QUESTION out, or leave --resume out.")
    if arguments.trace is not None:
        raise ConfigError("A resumed run goes on in its own trace file; leave --trace out.")


def recorded_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the trace says about the agent that wrote it: its model, to load and by name, and options of `ReAct`.

    Raises:
        TraceError: the trace cannot be read.
        ConfigError: `--model` names another model.
        ModelNotFoundError: the model is not on this disk by the name that the trace has.
    """
    from sureact.agent.recorded_run import require_steps, run_of
    from sureact.agent.recorded_signature import recorded_signature
    from sureact.agent.token_limits import TokenLimits

    header = require_steps(run_of(arguments.resume, arguments.run)).header
    options: dict[str, Any] = {
        "model": recorded_model(arguments.model, header),
        "model_name": header["model"],
        "prompt_format": header["prompt_format"],
    }
    if "limits" in header:
        if arguments.signature is None:
            options["signature"] = recorded_signature(header["signature"])
        options["limits"] = TokenLimits.recorded(header)
        options["on_repeat"] = header["on_repeat"]
        options["require_tools"] = header.get("require_tools", [])
        options["finish_after_error"] = header.get("finish_after_error", True)
    return options


def resumption(agent: ReAct, arguments: argparse.Namespace) -> Callable[[StepDisplay], Prediction]:
    """Refuse what can be refused and ask what is to be asked before the model is there; return what goes on then.

    Raises:
        ConfigError: the agent is not the one of the trace, or nobody says what becomes of an interrupted call.
        TraceError: the trace cannot be read.
    """
    from sureact.agent.recorded_run import run_of
    from sureact.agent.resume import resume_point
    from sureact.cli.recorded_display import show_recorded

    path, run_id, may_change = arguments.resume, arguments.run, arguments.allow_changed_tools
    answers: list[str] = []

    def on_unfinished(call: UnfinishedCall) -> str:
        if not answers:
            answers.append(arguments.on_unfinished if arguments.on_unfinished is not None else _ask(call))
        return answers[0]

    resume_point(agent, path, run_id, None, arguments.max_iters, on_unfinished, allow_changed_tools=may_change)

    def go_on(display: StepDisplay) -> Prediction:
        show_recorded(run_of(path, run_id), display)
        return agent.resume(
            path,
            run_id=run_id,
            max_iters=arguments.max_iters,
            on_unfinished=on_unfinished,
            allow_changed_tools=may_change,
        )

    return go_on


def _ask(call: UnfinishedCall) -> str:
    shown = json.dumps(call.args, ensure_ascii=False)
    what = f"The run was interrupted in step {call.step_index + 1}, in the call {call.tool_name}({shown})"
    if not sys.stdin.isatty():
        raise ConfigError(
            f"{what}, which may have taken effect. Say what becomes of it with --on-unfinished run, skip or the text "
            "of its result; or mark the tool as one that may run twice with Tool(..., idempotent=True)."
        )
    note(f"{what}.")
    while (answer := ask(_QUESTION)) is not None:
        if answer:
            return answer
    raise ConfigError("No answer; give it with --on-unfinished run, skip or the text of the result.")
