"""Follows a tool call: finds out which tool is named, and lets that tool's guard judge the arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from sureact.constraints.guards.guard import Guard, GuardState

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, eq=False)
class GuardedCall:
    """A tool, as the guard sees it."""

    opening: bytes
    """The text from the start of the call to the arguments, without control tokens."""
    arguments: Guard | None
    """None when the grammar of the arguments is exact."""


class CallGuard(Guard):
    """One of several tools."""

    def __init__(self, calls: Sequence[GuardedCall]) -> None:
        self.calls = tuple(calls)

    def new_state(self) -> CallGuardState:
        """Return a position at the start of the text."""
        return CallGuardState(self.calls)


class _Candidate(NamedTuple):
    """A tool whose opening the text has."""

    call: GuardedCall
    arguments: GuardState | None

    def feed(self, data: bytes) -> bool:
        return self.arguments is None or self.arguments.feed(data)


class _Position(NamedTuple):
    opening: bytes
    num_bytes: int
    candidates: tuple[_Candidate, ...]
    arguments: tuple[object, ...]


class CallGuardState(GuardState):
    """A position in one call. One opening may begin another, so several tools can be in question for a while."""

    def __init__(self, calls: tuple[GuardedCall, ...]) -> None:
        self._calls = calls
        self._longest = max(len(call.opening) for call in calls)
        self._opening = b""  # of the text, as much as tells the tools apart
        self._num_bytes = 0
        self._candidates: tuple[_Candidate, ...] = ()

    def feed(self, data: bytes) -> bool:
        """Read on; False when no tool is left that the text can be a call of."""
        alive = [candidate for candidate in self._candidates if candidate.feed(data)]
        if len(self._opening) < self._longest:
            alive += self._opened(data)
            self._opening = (self._opening + data)[: self._longest]
        self._candidates = tuple(alive)
        self._num_bytes += len(data)
        return bool(alive) or any(self._can_open(call) for call in self._calls)

    def _can_open(self, call: GuardedCall) -> bool:
        return len(self._opening) < len(call.opening) and call.opening.startswith(self._opening)

    def _opened(self, data: bytes) -> list[_Candidate]:
        """Return the tools whose opening ends in `data`, after what follows it was read."""
        text = self._opening + data
        opened: list[_Candidate] = []
        for call in self._calls:
            if len(self._opening) < len(call.opening) and text.startswith(call.opening):
                candidate = _Candidate(call, call.arguments and call.arguments.new_state())
                if candidate.feed(text[len(call.opening) :]):
                    opened.append(candidate)
        return opened

    def can_end(self) -> bool:
        """Whether the arguments of a tool in question are complete and valid."""
        return any(arguments is None or arguments.can_end() for _, arguments in self._candidates)

    def position(self) -> object:
        """Return where the text stands."""
        arguments = tuple(state and state.position() for _, state in self._candidates)
        return _Position(self._opening, self._num_bytes, self._candidates, arguments)

    def go_back(self, position: object) -> None:
        """Forget what was read after `position`."""
        self._opening, self._num_bytes, self._candidates, arguments = cast("_Position", position)
        for (_, state), place in zip(self._candidates, arguments, strict=True):
            if state is not None:
                state.go_back(place)

    @property
    def num_settled_bytes(self) -> int:
        """Bytes before what the guard of a tool in question may take back."""
        settled = [len(call.opening) + state.num_settled_bytes for call, state in self._candidates if state is not None]
        return min(settled, default=self._num_bytes)
