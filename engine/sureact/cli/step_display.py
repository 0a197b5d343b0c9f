"""Shows an agent's run on standard error while it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sureact.agent.events import (
    CallDelta,
    CallWithdrawn,
    ContextTruncated,
    EndedEarly,
    Event,
    ObservationReady,
    OutputDelta,
    ThoughtDelta,
)
from sureact.cli.console import error_console
from sureact.visible_text import visible

if TYPE_CHECKING:
    from rich.console import Console

# Every prompt format writes calls with labels of its own.
_CALL = ""


class StepDisplay:
    """Takes an agent's events and writes what it thinks, calls, observes and answers, piece by piece."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or error_console()
        self._open: tuple[str, str] | None = None
        self._held = ""
        self._step_index = -1

    def __call__(self, event: Event) -> None:
        """Show an event; those that repeat what was shown already say nothing."""
        match event:
            case ThoughtDelta(step_index=index, text=text, is_thinking=is_thinking):
                self._begin_step(index)
                self._add("Thinking" if is_thinking else "Thought", text)
            case CallDelta(step_index=index, text=text, call_id=call_id):
                self._begin_step(index)
                self._add(_CALL, text, call_id)
            case ObservationReady(step_index=index, observation=observation, is_error=is_error):
                self._begin_step(index)
                self._add("Error" if is_error else "Observation", observation, style="red" if is_error else "green")
            case OutputDelta(text=text):
                self._add("Answer", text)
            case EndedEarly(end=end):
                self.note("Ended early", f"{end.pointer or 'the text'}: {end.reason.replace('_', ' ')}")
            case CallWithdrawn():
                self.note("Taken back", "it repeats an earlier call; another tool is decided on")
            case ContextTruncated(dropped_steps=dropped, trimmed_steps=trimmed):
                parts = (("cut the observations of steps", trimmed), ("dropped steps", dropped))
                self.note("Context full", "; ".join(f"{what} {_numbers(steps)}" for what, steps in parts if steps))
            case _:
                self.close()

    def note(self, label: str, text: str, step_index: int | None = None) -> None:
        """Show a line of its own, in the step of that index: what becomes of a call, or what no event tells."""
        if step_index is not None:
            self._begin_step(step_index)
        self._add(label, text)
        self.close()

    def close(self) -> None:
        """End the line that is open, so that something else can be written."""
        self._held = ""
        if self._open is not None:
            self._open = None
            self._console.print()

    def _begin_step(self, index: int) -> None:
        if index != self._step_index:
            self._step_index = index
            self.close()
            self._console.print(f"Step {index + 1}", style="bold")

    def _add(self, label: str, text: str, part_id: str = "", style: str = "") -> None:
        """Go on with the part of that label, or begin it; blanks at its end are held back until it goes on."""
        if (label, part_id) != self._open:
            text = text.lstrip()
            if not text:
                return
            self.close()
            self._open = (label, part_id)
            self._console.print(f"  {label}: " if label else "  ", style="dim", end="")
        text = self._held + text
        shown = text.rstrip()
        self._held = text[len(shown) :]
        indent = "\n    " if label else "\n  "
        self._console.print(visible(shown).replace("\n", indent), style=style, end="")


def _numbers(indices: tuple[int, ...]) -> str:
    return ", ".join(str(index + 1) for index in indices)
