"""Shows an agent's run on standard error while it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sureact.agent.events import (
    CallDelta,
    CallWithdrawn,
    ContextTruncated,
    Event,
    ObservationReady,
    OutputDelta,
    ThoughtDelta,
)
from sureact.cli.console import error_console
from sureact.visible_text import visible

if TYPE_CHECKING:
    from rich.console import Console


class StepDisplay:
    """Takes an agent's events and writes what it thinks, calls, observes and answers, piece by piece."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or error_console()
        self._open = ""
        self._step_index = -1

    def __call__(self, event: Event) -> None:
        """Show an event; those that repeat what was shown already say nothing."""
        match event:
            case ThoughtDelta(step_index=index, text=text):
                self._begin_step(index)
                self._add("Thought", text)
            case CallDelta(step_index=index, text=text):
                self._begin_step(index)
                self._add("Call", text)
            case ObservationReady(step_index=index, observation=observation, is_error=is_error):
                self._begin_step(index)
                self._add("Error" if is_error else "Observation", observation, style="red" if is_error else "green")
            case OutputDelta(text=text):
                self._add("Answer", text)
            case CallWithdrawn(tool_name=name):
                self._add("Taken back", f"{name} was called like this before; another tool is decided on")
            case ContextTruncated(dropped_steps=dropped, trimmed_steps=trimmed):
                parts = (("cut the observations of steps", trimmed), ("dropped steps", dropped))
                self._add("Context full", "; ".join(f"{what} {_numbers(steps)}" for what, steps in parts if steps))
            case _:
                self._close()

    def _begin_step(self, index: int) -> None:
        if index != self._step_index:
            self._step_index = index
            self._close()
            self._console.print(f"Step {index + 1}", style="bold")

    def _add(self, label: str, text: str, style: str = "") -> None:
        """Go on with the part of that label, or begin it."""
        if label != self._open:
            self._close()
            self._open = label
            self._console.print(f"  {label}: ", style="dim", end="")
            text = text.lstrip()
        self._console.print(visible(text).replace("\n", "\n    "), style=style, end="")

    def _close(self) -> None:
        if self._open:
            self._open = ""
            self._console.print()


def _numbers(indices: tuple[int, ...]) -> str:
    return ", ".join(str(index + 1) for index in indices)
