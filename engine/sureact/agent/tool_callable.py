"""What stands behind the callable of a tool: its name, its docstring, its annotations, and what is bound already.

A function says these of itself. An object that is called says them in its `__call__`, and a `functools.partial` says
nothing: what it wraps does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, cast

from sureact.agent.docstring import Docstring, parse_docstring

_PYTHONS_OWN = type.__call__.__doc__
"""What Python says of every `__call__` that says nothing of itself."""


def callable_name(func: Callable[..., object]) -> Any:
    """Return the name of a function, of what a partial wraps, or of an object's class."""
    while isinstance(func, functools.partial) and not hasattr(func, "__name__"):
        func = cast("Callable[..., object]", func.func)
    return getattr(func, "__name__", type(func).__name__)


def callable_docstring(func: Callable[..., object]) -> Docstring:
    """Return what the docstring says of a callable and of its parameters.

    That of `__call__` comes before that of an object's class, which describes how one is made.
    """
    while isinstance(func, functools.partial) and not _has_own_docstring(func):
        func = cast("Callable[..., object]", func.func)
    described = parse_docstring(_unless_pythons(inspect.getdoc(func)))
    if inspect.isroutine(func) or _has_own_docstring(func):
        return described
    of_call = _call_docstring(type(func))
    if of_call is None:
        return described
    call = parse_docstring(of_call)
    return Docstring(call.summary or described.summary, call.params)


def annotated_callable(func: Callable[..., object]) -> Callable[..., object]:
    """Return what holds the annotations of a callable's signature."""
    while isinstance(func, functools.partial):
        func = cast("Callable[..., object]", func.func)
    if inspect.isroutine(func) or inspect.isclass(func):
        return func
    wrapped = inspect.unwrap(func)
    return type(func).__call__ if wrapped is func else wrapped


def bound_names(func: Callable[..., object]) -> frozenset[str]:
    """Return the parameters that a partial binds by keyword. Its signature still has these, with a default."""
    names: set[str] = set()
    while isinstance(func, functools.partial):
        names |= func.keywords.keys()
        func = cast("Callable[..., object]", func.func)
    return frozenset(names)


def _has_own_docstring(func: object) -> bool:
    """Whether an object has a docstring that is not its class's, as `functools.update_wrapper` gives it."""
    return "__doc__" in getattr(func, "__dict__", {})


def _call_docstring(cls: type) -> str | None:
    for base in cls.__mro__:
        text = _unless_pythons(getattr(vars(base).get("__call__"), "__doc__", None))
        if text:
            return text
    return None


def _unless_pythons(text: object) -> str | None:
    return text if isinstance(text, str) and text != _PYTHONS_OWN else None
