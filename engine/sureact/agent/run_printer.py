"""Prints a run as the lines of the classic ReAct text while it goes on: the model in green, the tools in blue."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from sureact.agent.events import AnswerReady, CallDelta, CallStarted, Event, ObservationReady, ThoughtDelta
from sureact.agent.tool import FINISH
from sureact.visible_text import visible

if TYPE_CHECKING:
    from typing import TextIO

_COLORS = {"green": "\033[32m", "blue": "\033[34m"}
_END = "\033[0m"


class RunPrinter:
    """Takes the events of an agent with one output `answer` in the format `qwen_react`."""

    def __init__(self, file: TextIO, color: bool | None = None) -> None:
        """Take where to print.

        Args:
            file: where to print.
            color: whether to color; None for a terminal on which `NO_COLOR` is not set.
        """
        self._file = file
        self._color = file.isatty() and not os.environ.get("NO_COLOR") if color is None else color
        self._part: tuple[str, int] = ("", -1)
        self._is_line_open = False
        self._tool_name = ""

    def __call__(self, event: Event) -> None:
        """Print an event."""
        match event:
            case ThoughtDelta(step_index=index, text=text):
                self._print(("Thought:" if self._begins("thought", index) else "") + text, "green")
            case CallDelta(step_index=index, text=text):
                self._begins("call", index)
                self._print(text, "green")
            case CallStarted(tool_name=name):
                self._tool_name = name
            case ObservationReady(step_index=index, observation=text) if self._tool_name != FINISH:
                self._begins("observation", index)
                self._print(f"Observation: {text}\n", "blue")
            case AnswerReady(outputs=outputs):
                self._begins("answer", -1)
                label = "" if self._tool_name == FINISH else "Final Answer:\n"
                self._print(f"{label}{outputs['answer']}\n", "green")
            case _:
                pass

    def _begins(self, kind: str, step_index: int) -> bool:
        """Whether another part begins than the one that was printed last; that one then ends its line."""
        if self._part == (kind, step_index):
            return False
        self._part = (kind, step_index)
        if self._is_line_open:
            self._print("\n", "green")
        return True

    def _print(self, text: str, color: Literal["green", "blue"]) -> None:
        # What a model or a tool writes must not steer the terminal.
        text = visible(text)
        self._file.write(f"{_COLORS[color]}{text}{_END}" if self._color else text)
        self._file.flush()
        self._is_line_open = bool(text) and not text.endswith("\n")
