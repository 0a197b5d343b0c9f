"""Which calls an agent may decide on at a step: repeats, tools that must come first, tools that a step lacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from sureact.agent.tool import FINISH
from sureact.errors import ConfigError
from sureact.option_values import require_bool

if TYPE_CHECKING:
    from sureact.agent.tool import Tool
    from sureact.agent.trajectory import Step, Trajectory

OnRepeat = Literal["mask", "remind", "run"]
AllowedTools = Callable[[int, "Trajectory"], Collection[str]] | Mapping[int, Collection[str]]
"""Names of the tools of a step: by a function of its index and the steps before it, or a mapping by index, in which a
step that is missing has all tools. `finish` need not be named; no name leaves it alone."""
FINISH_AFTER_ERROR = True
"""Whether an agent may finish right after a step that failed, unless it is told."""


def call_key(tool_name: str, tool_args: Mapping[str, Any]) -> str:
    """Return what two calls share if they are the same: JSON values are equal as such, so 1 and 1.0 are."""
    from sureact.constraints.schema.disjointness import canonical

    return json.dumps([tool_name, canonical(tool_args)])


@dataclass(slots=True)
class EarlierCalls:
    """The calls of a run that count as made: all that were not refused, whether or not they gave an error."""

    first: dict[str, Step] = field(default_factory=dict[str, "Step"])
    """The first step of each call, by `call_key`."""
    succeeded: set[str] = field(default_factory=set[str])
    """Tools of which a call gave no error."""

    def add(self, step: Step) -> None:
        """Take the next finished step.

        A call that the user changed counts as both; one that was skipped as none, because whether it was made is not
        known.
        """
        if step.outcome == "skipped":
            return
        for args in (step.tool_args, step.edited_args):
            if args is not None:
                self.first.setdefault(call_key(step.tool_name, args), step)
        if not step.is_error:
            self.succeeded.add(step.tool_name)

    def find(self, tool_name: str, tool_args: Mapping[str, Any]) -> Step | None:
        """Return the first step of the same call."""
        return self.first.get(call_key(tool_name, tool_args))

    def count(self, tool_name: str) -> int:
        """Return how many different calls of a tool there were."""
        return sum(step.tool_name == tool_name for step in self.first.values())


@dataclass(frozen=True, slots=True)
class CallChoice:
    """What may be called at a step."""

    names: tuple[str, ...]
    """Tools that may be named, at least one."""
    is_masked: Callable[[str, Mapping[str, Any]], bool] = lambda name, args: False
    """Whether a call repeats one that may not come again."""


class CallRules:
    """The rules of an agent, for each of its runs."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        *,
        on_repeat: OnRepeat = "mask",
        require_tools: Iterable[str] = (),
        allowed_tools: AllowedTools | None = None,
        finish_after_error: bool = FINISH_AFTER_ERROR,
    ) -> None:
        """Check the rules.

        Args:
            tools: by name, `finish` among them.
            on_repeat: see `ReAct`.
            require_tools: see `ReAct`.
            allowed_tools: see `ReAct`.
            finish_after_error: see `ReAct`.

        Raises:
            ConfigError: an option is not allowed, or names a tool that there is not.
        """
        if on_repeat not in get_args(OnRepeat):
            raise ConfigError(f"on_repeat is {on_repeat!r}; it must be one of {get_args(OnRepeat)}.")
        self.on_repeat: OnRepeat = on_repeat
        self._tools = tools
        self.require_tools = frozenset(self._checked("require_tools", require_tools))
        if FINISH in self.require_tools:
            raise ConfigError(f"require_tools names {FINISH!r}, which ends the run; name tools that come before it.")
        if not (allowed_tools is None or callable(allowed_tools) or isinstance(cast("object", allowed_tools), Mapping)):
            raise ConfigError(
                f"allowed_tools is {allowed_tools!r}; it must be a function of the step's index and the trajectory, a "
                "mapping from the index, or None."
            )
        if isinstance(allowed_tools, Mapping):
            given = cast("Mapping[object, Collection[str]]", allowed_tools)
            allowed_tools = {_index(index): self._checked("allowed_tools", names) for index, names in given.items()}
            self._require_reachable(allowed_tools)
        self.allowed_tools = allowed_tools
        self.finish_after_error = require_bool("finish_after_error", finish_after_error)
        self._num_possible: dict[str, int | None] = {}

    def _require_reachable(self, allowed_tools: Mapping[int, Collection[str]]) -> None:
        """Refuse a step that has `finish` alone before each of the required tools can have been called."""
        for index in range(len(self.require_tools)):
            if not set(allowed_tools.get(index, self._tools)) - {FINISH}:
                raise ConfigError(
                    f"allowed_tools leaves step {index} nothing but {FINISH!r}, which require_tools keeps out until "
                    f"{', '.join(sorted(self.require_tools))} succeeded. Allow one of these at that step."
                )

    def choice(self, step_index: int, trajectory: Trajectory, earlier: EarlierCalls) -> CallChoice:
        """Return what may be called at a step.

        Whatever the rules leave out, something is left: tools of which all calls were made already, whose repeat then
        gives a reminder, or else `finish`, also before a required tool: a step that allows no tool ends the run.

        Raises:
            ConfigError: `allowed_tools` returned something else than names of tools.
        """
        names = self._allowed(step_index, trajectory)
        if self.require_tools - earlier.succeeded:
            names = tuple(name for name in names if name != FINISH) or (FINISH,)
        if self.on_repeat == "mask":
            names = tuple(name for name in names if not self._is_used_up(name, earlier)) or names
        if not self.finish_after_error and _has_just_failed(trajectory):
            names = tuple(name for name in names if name != FINISH) or names
        if self.on_repeat != "mask":
            return CallChoice(names)
        return CallChoice(names, lambda name, args: self.repeated(name, args, earlier) is not None)

    def repeated(self, tool_name: str, tool_args: Mapping[str, Any], earlier: EarlierCalls) -> Step | None:
        """Return the step that a call repeats; None where it is no repeat, or repeats are run."""
        if self.on_repeat == "run" or self._tools[tool_name].repeatable:
            return None
        return earlier.find(tool_name, tool_args)

    def _allowed(self, step_index: int, trajectory: Trajectory) -> tuple[str, ...]:
        rule = self.allowed_tools
        if callable(rule):
            allowed = self._checked("allowed_tools", rule(step_index, trajectory))
        else:
            allowed = (rule or {}).get(step_index, self._tools)
        return tuple(name for name in self._tools if name in allowed or name == FINISH)

    def _is_used_up(self, tool_name: str, earlier: EarlierCalls) -> bool:
        """Whether each call of a tool was made already, such as the only one of a tool without arguments."""
        from sureact.constraints.narrowed_call import num_possible_arguments

        tool = self._tools[tool_name]
        if tool_name == FINISH or tool.repeatable:
            return False
        if tool_name not in self._num_possible:
            self._num_possible[tool_name] = num_possible_arguments(tool.parameters)
        possible = self._num_possible[tool_name]
        return possible is not None and earlier.count(tool_name) >= possible

    def _checked(self, option: str, names: object) -> frozenset[str]:
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise ConfigError(f"{option} gave {names!r}; it must give the names of tools.")
        given = list(cast("Iterable[object]", names))
        unknown = [name for name in given if name not in self._tools]
        if unknown:
            raise ConfigError(f"{option} names {unknown[0]!r}; there are {', '.join(self._tools)}.")
        return frozenset(cast("list[str]", given))


def _has_just_failed(trajectory: Trajectory) -> bool:
    """Whether the last step failed and the one before it did not, so that the model has not seen what it could do."""
    match trajectory.steps:
        case [*_, before, last]:
            return _is_failure(last) and not _is_failure(before)
        case [last]:
            # Whether a step that was dropped had failed cannot be told, and a run must not be held for it.
            return _is_failure(last) and last.index == 0
        case _:
            return False


def _is_failure(step: Step) -> bool:
    """Whether a step gave an error that was nobody's decision."""
    return step.is_error and step.outcome not in ("denied", "skipped")


def _index(index: object) -> int:
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise ConfigError(f"allowed_tools has the key {index!r}; its keys are indices of steps, from 0.")
    return index
