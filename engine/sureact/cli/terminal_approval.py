"""`sureact run --approve`: asks on the terminal before each call runs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from sureact.agent.approval import Allow, Deny, Edit, PendingCall, Verdict
from sureact.cli.console import ask, note
from sureact.errors import ConfigError, ToolExecutionError

if TYPE_CHECKING:
    from sureact.cli.step_display import StepDisplay

_CHOICES = "run, deny [REASON], or edit ARGUMENTS as a JSON object"


class TerminalApproval:
    """Asks whether a call may run, until the answer is one of those that it offers."""

    def __init__(self, display: StepDisplay) -> None:
        """Take what shows the run, whose line ends before a question is asked.

        Raises:
            ConfigError: standard input is no terminal.
        """
        if not sys.stdin.isatty():
            raise ConfigError(
                "--approve asks on the terminal before each call, and standard input is none. Run it in a terminal, or "
                "leave --approve out."
            )
        self._display = display

    def __call__(self, call: PendingCall) -> Verdict:
        """Ask about a call.

        Raises:
            ConfigError: the input ended.
        """
        self._display.close()
        what = f"{call.tool_name}({json.dumps(call.args, ensure_ascii=False)})"
        while (answer := ask(f"  Run {what}? [run/deny REASON/edit JSON] ")) is not None:
            verdict = _verdict(answer, call)
            if isinstance(verdict, str):
                note(f"  {verdict}")
            else:
                return verdict
        raise ConfigError(
            f"No answer on whether {what} may run, so it did not, and the run ended. `sureact run --resume FILE` with "
            "its trace goes on from there."
        )


def _verdict(answer: str, call: PendingCall) -> Verdict | str:
    """Return what an answer says, or why it says nothing."""
    word, _, rest = answer.partition(" ")
    match word.lower():
        case "run" if not rest:
            return Allow()
        case "deny":
            return Deny(rest.strip())
        case "edit":
            return _edit(rest, call)
        case _:
            return f"Answer {_CHOICES}."


def _edit(text: str, call: PendingCall) -> Edit | str:
    try:
        args: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"The arguments are no JSON: {error}. Answer {_CHOICES}."
    if not isinstance(args, dict):
        return f"The arguments are no JSON object. Answer {_CHOICES}."
    try:
        call.check(args)
    except ToolExecutionError as error:
        return f"These arguments do not fit: {error}"
    return Edit(args)
