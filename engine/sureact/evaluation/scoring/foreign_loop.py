"""A peer with a loop and prompts of its own: another project's agent on the weights of our engine."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sureact.evaluation.scoring.peer_loop import PeerRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sureact.agent.tool import Tool

MAX_TURN_TOKENS = 1024
"""Of one text of the model; more than ours gets for a thought and a call."""
_MAX_FAULT_CHARACTERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTask:
    """What any project's agent can be given."""

    question: str
    output_type: str
    """Type of the answer, as in a signature, for loops that know types."""
    tools: Sequence[Tool]
    """Those that work; a loop that ends by a call has that tool itself."""
    max_iters: int
    """Most steps before the answer."""


class ForeignLoop(ABC):
    """Runs tasks as another project does, with nothing of ours but the engine and the functions behind the tools."""

    @abstractmethod
    def prompt(self, task: LoopTask) -> str:
        """Return what goes into the prompts of a task, so that two tasks with one text are asked the same."""

    @abstractmethod
    def play(self, task: LoopTask, run: PeerRun) -> None:
        """Run a task; note calls, tokens and outputs in `run` as they come, so that they outlive an error."""

    def run(self, task: LoopTask) -> PeerRun:
        """Run a task. What the loop raises is how the run ended: without an answer. Mistakes of ours are raised."""
        run = PeerRun()
        try:
            self.play(task, run)
        except Exception as error:  # a loop of others may fail in any way, and the next case goes on
            if _is_own_mistake(error):
                raise
            run.outputs = None
            run.fault = f"{type(error).__name__}: {error}"
        run.fault = " ".join(run.fault.split())[:_MAX_FAULT_CHARACTERS]
        return run


def _is_own_mistake(error: Exception) -> bool:
    """Whether our code raised what it does not mean to: an error of Python's own."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return type(error).__module__ == "builtins" and frame.f_globals.get("__name__", "").startswith("sureact.")
