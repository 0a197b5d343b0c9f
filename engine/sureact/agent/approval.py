"""Asks the user before a call runs: allow it, deny it with a reason, or give it other arguments."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sureact.agent.event_loop import shared_event_loop
from sureact.errors import ConfigError, ToolExecutionError

if TYPE_CHECKING:
    from sureact.agent.cancellation import Cancellation
    from sureact.agent.tool import Tool


@dataclass(frozen=True, slots=True)
class Allow:
    """The call runs as it is."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The call does not run, and the model reads why."""

    reason: str = ""

    def __post_init__(self) -> None:
        """Validate."""
        if not isinstance(self.reason, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"The reason of a denial is {self.reason!r}; it must be text, which the model reads.")


@dataclass(frozen=True, slots=True)
class Edit:
    """The call runs with other arguments, and the model reads which."""

    args: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Validate."""
        if not isinstance(self.args, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"The arguments of an edit are {self.args!r}; they must be a mapping by name.")


Verdict = Allow | Deny | Edit


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that waits for its approval."""

    tool: Tool
    args: dict[str, Any]
    """A copy of the arguments, as parsed JSON."""

    @property
    def tool_name(self) -> str:
        """Name of the tool."""
        return self.tool.name

    def check(self, args: Mapping[str, Any]) -> None:
        """Judge arguments that could stand in an `Edit`.

        Raises:
            ToolExecutionError: they do not fit the schema of the tool.
        """
        self.tool.check(args)


def edited_args(verdict: Verdict | None) -> Mapping[str, Any] | None:
    """Return the arguments that a call runs with in place of its own; None for its own."""
    return verdict.args if isinstance(verdict, Edit) else None


Approve = Callable[[PendingCall], Verdict | Awaitable[Verdict]]
"""Decides on a call, on the thread that runs the agent; may be async. What it raises ends the run."""


def ask(approve: Approve, tool: Tool, args: Mapping[str, Any], cancellation: Cancellation | None) -> Verdict:
    """Return the decision on a call; arguments of an edit are a copy and fit the schema of the tool.

    Raises:
        ConfigError: `approve` returned something else.
        ToolExecutionError: the edited arguments do not fit the schema of the tool.
    """
    pending = PendingCall(tool, copy.deepcopy(dict(args)))
    answer = approve(pending)
    if isinstance(answer, Awaitable):
        answer = shared_event_loop().run(_awaited(answer), cancellation=cancellation)
    if isinstance(answer, Edit):
        edited = copy.deepcopy(dict(answer.args))
        try:
            tool.check(edited)
        except ToolExecutionError as error:
            raise ToolExecutionError(f"The edited arguments do not fit: {error}") from error
        return Edit(edited)
    if not isinstance(cast("object", answer), Allow | Deny):
        raise ConfigError(f"approve returned {answer!r}; it must return Allow(), Deny(reason) or Edit(args).")
    return answer


async def _awaited(answer: Awaitable[Verdict]) -> Verdict:
    return await answer
