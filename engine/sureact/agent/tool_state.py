"""Tools that are methods of an object, of which each run makes its own."""

from __future__ import annotations

import inspect
import threading
import types
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, cast

from sureact.errors import ToolDefinitionError, ToolExecutionError

_METHODS = (types.FunctionType, staticmethod, classmethod)


class ToolState:
    """A class and the way to make an instance of it; tools that share one share the instance of a run."""

    def __init__(self, cls: type, make: Callable[[], object] | None = None) -> None:
        """Take the class.

        Args:
            cls: the class.
            make: gives an instance; None calls the class without arguments.

        Raises:
            ToolDefinitionError: `make` cannot be called, or is missing although the class needs arguments.
        """
        self.cls = cls
        if make is not None and not callable(make):
            raise ToolDefinitionError(f"make is {make!r}; it must be a callable that gives a {cls.__name__}.")
        self.make: Callable[[], object] = cls if make is None else make
        if make is None:
            _require_no_arguments(cls)

    def method_names(self) -> list[str]:
        """Return the names of the public methods, those of base classes first, in the order of their definitions."""
        names: dict[str, None] = {}
        for owner in reversed(self.cls.__mro__[:-1]):
            for name, value in vars(owner).items():
                if not name.startswith("_") and isinstance(value, _METHODS):
                    names[name] = None
        return list(names)


class ToolMethod:
    """A method of a `ToolState`. Called outside of a run it has an instance of its own for each call."""

    def __init__(self, state: ToolState, method_name: str) -> None:
        """Take a method that the class has."""
        self.state = state
        self.method_name = method_name
        found = inspect.getattr_static(state.cls, method_name)
        self.has_self = not isinstance(found, staticmethod | classmethod)
        """Whether the first parameter of `function` is the instance."""
        self.function: Callable[..., object] = getattr(state.cls, method_name)
        """What is described."""
        self.__name__ = state.cls.__name__ if method_name == "__call__" else method_name

    def __call__(self, **args: object) -> object:
        """Call the method of a fresh instance."""
        instances = RunInstances()
        result = self.call_in(instances, **args)
        if not inspect.isawaitable(result):
            instances.close()
            return result

        async def finish() -> object:
            try:
                return await result
            finally:
                instances.close()

        return finish()

    def call_in(self, instances: RunInstances, /, **args: object) -> object:
        """Call the method of the instance of a run."""
        return getattr(instances.of(self.state), self.method_name)(**args)


class RunInstances:
    """The instances of one run: made when they are first used, left when the run ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A constructor that hangs on a thread that was left behind must hold up no other class, and not the end.
        self._locks: dict[ToolState, threading.Lock] = {}
        self._instances: dict[ToolState, object] = {}
        self._entered: list[AbstractContextManager[Any]] = []
        self._is_closed = False

    def of(self, state: ToolState) -> object:
        """Return the run's instance. What is a context manager is entered, and its `__enter__` gives the instance.

        Raises:
            ToolExecutionError: the run has ended.
        """
        with self._lock:
            own_lock = self._locks.setdefault(state, threading.Lock())
        with own_lock:
            if state not in self._instances:
                self._keep(state, state.make())
            return self._instances[state]

    def close(self) -> None:
        """Leave the instances that are context managers, the last one first. What one raises is a warning."""
        with self._lock:
            self._is_closed = True
            entered, self._entered = self._entered, []
        for manager in reversed(entered):
            try:
                manager.__exit__(None, None, None)
            except Exception as error:  # what the run gave must not be lost with it
                warnings.warn(
                    f"A {type(manager).__name__} raised when its run ended: {type(error).__name__}: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def _keep(self, state: ToolState, made: object) -> None:
        manager = None
        if hasattr(type(made), "__enter__") and hasattr(type(made), "__exit__"):
            manager = cast("AbstractContextManager[Any]", made)
            made = manager.__enter__()
        with self._lock:
            self._instances[state] = made
            is_late = self._is_closed
            if manager is not None and not is_late:
                self._entered.append(manager)
        if is_late:
            if manager is not None:
                manager.__exit__(None, None, None)
            raise ToolExecutionError("the run has ended")


def _require_no_arguments(cls: type) -> None:
    try:
        inspect.signature(cls).bind()
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(
            f"A run cannot make its own {cls.__name__}: {error}. Give what makes one: Tool.methods_of(cls, make=...)."
        ) from error
