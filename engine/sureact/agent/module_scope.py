"""Which modules are being called right now, from the outermost in, and what is told to them.

A call runs in a context of its own, so calls on other threads and tasks are apart; a thread that is started with a copy
of the context belongs to the call that started it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from sureact.agent.usage_tracker import UsageTracker

if TYPE_CHECKING:
    from collections import deque

    from sureact.agent.call_history import LmCall
    from sureact.agent.callback import Callback
    from sureact.agent.cancellation import Cancellation
    from sureact.outputs import StepOutput


class Scope(NamedTuple):
    """One call of a module, or one block of `track_usage`."""

    usage: UsageTracker
    history: deque[LmCall] | None = None
    callbacks: tuple[Callback, ...] = ()


_scopes: ContextVar[tuple[Scope, ...]] = ContextVar("sureact_scopes", default=())
_cancellation: ContextVar[Cancellation | None] = ContextVar("sureact_cancellation", default=None)


@contextmanager
def entered(scope: Scope) -> Generator[None]:
    """Have generations in the block counted in the scope and in those around it."""
    token = _scopes.set((*_scopes.get(), scope))
    try:
        yield
    finally:
        _scopes.reset(token)


@contextmanager
def track_usage() -> Generator[UsageTracker]:
    """Count the tokens of all modules that are called in the block.

    with track_usage() as usage:
        program(question="?")
    usage.total_tokens()
    """
    usage = UsageTracker()
    with entered(Scope(usage)):
        yield usage


@contextmanager
def cancelled_by(cancellation: Cancellation) -> Generator[None]:
    """Have the sessions that modules open in the block closed when `cancellation` is cancelled."""
    token = _cancellation.set(cancellation)
    try:
        yield
    finally:
        _cancellation.reset(token)


def current_cancellation() -> Cancellation | None:
    """Return what ends the call that is going on, if anything can."""
    return _cancellation.get()


def tool_cancellation() -> Cancellation | None:
    """Return what gives up the tools of the call that is going on, if anything does."""
    cancellation = _cancellation.get()
    return cancellation if cancellation is not None and cancellation.gives_up_tools else None


def active_callbacks(own: Iterable[Callback] = ()) -> list[Callback]:
    """Return the callbacks of all modules that are being called, and `own`; each once, outermost first."""
    found = [callback for scope in _scopes.get() for callback in scope.callbacks]
    return list({id(callback): callback for callback in (*found, *own)}.values())


def note_generation(call: LmCall, output: StepOutput) -> None:
    """Put a finished generation into the histories and counts of all that are being called."""
    histories: dict[int, deque[LmCall]] = {}  # a module that calls itself has one history
    for scope in _scopes.get():
        scope.usage.add(call.model, output.usage)
        if scope.history is not None:
            histories[id(scope.history)] = scope.history
    for history in histories.values():
        history.append(call)
