"""What travels between a program and the process of its engine.

The messages are pickled. They pass through a pair of sockets without a name, which only the two processes hold; nothing
pickled is ever written to a file or read from one.
"""

from __future__ import annotations

import pickle
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from sureact.errors import ConfigError, InternalError

if TYPE_CHECKING:
    from sureact.constraints.constraint import Constraint
    from sureact.outputs import StreamDelta
    from sureact.sampling_params import SamplingParams

_KNOWN_MODULES = ("sureact", "builtins")


class Change(NamedTuple):
    """What became of a session's context since its process last heard of it."""

    session_id: int
    cache_salt: str | None
    keep: int
    """Tokens from the start that are still the same."""
    token_ids: list[int]
    """Those that follow."""


class Generate(NamedTuple):
    """Ask for one text; answered by deltas, then by an `End` or a `Failure`."""

    call_id: int
    prompt: list[int] | Change
    params: SamplingParams | None
    constraint: bytes | None
    """Pickled apart, so that what cannot be read fails alone."""
    is_streamed: bool
    completion_index: int = 0
    """Tells the completions of a prompt apart."""
    cache_salt: str | None = None


class Ask(NamedTuple):
    """Ask for anything else; answered by an `Answer` or a `Failure`."""

    call_id: int
    verb: str
    arguments: tuple[Any, ...]


class Cancel(NamedTuple):
    """End a generation where it stands."""

    call_id: int


class CloseSession(NamedTuple):
    """Give a session's memory back."""

    session_id: int


class Close(NamedTuple):
    """End the engine and its process."""


class End(NamedTuple):
    """The last delta of a generation."""

    delta: StreamDelta
    tail: list[int]
    """What it left in its context."""


class Failure(NamedTuple):
    """Why a generation or a question has no result."""

    types: tuple[tuple[str, str], ...]
    """Module and name of the error's class and its bases."""
    args: tuple[object, ...]
    fields: dict[str, object]
    notes: tuple[str, ...]
    tail: list[int] = []  # noqa: RUF012  never changed
    """What a failed generation left in its context."""


class Answer(NamedTuple):
    """What was asked for."""

    value: Any


def pack_failure(error: BaseException, tail: list[int] | None = None) -> Failure:
    """Return what another process needs to raise the same error."""
    fields = {name: value for name, value in vars(error).items() if name != "__notes__" and _crosses(value)}
    args: tuple[object, ...] = error.args
    if isinstance(error, OSError) and error.filename is not None:
        args = (*args, error.filename)
    if not _crosses(args):
        args = (str(error),)
    types = tuple((kind.__module__, kind.__qualname__) for kind in type(error).__mro__ if kind is not object)
    return Failure(types, args, fields, tuple(getattr(error, "__notes__", ())), tail or [])


def unpack_failure(failure: Failure) -> BaseException:
    """Return the error, of the class or the nearest base that is one of Python's or sureact's own."""
    kind = next(filter(None, (_error_class(*name) for name in failure.types)), InternalError)
    error = kind.__new__(kind, *failure.args)
    vars(error).update(failure.fields)
    module, name = failure.types[0]
    if (module, name) != (kind.__module__, kind.__qualname__):
        error.add_note(f"It was raised as {module}.{name} in the engine's process.")
    for note in failure.notes:
        error.add_note(note)
    return error


def pack_constraint(constraint: Constraint | None) -> bytes | None:
    """Return a constraint as another process can read it: what it was made of, nothing compiled.

    Raises:
        ConfigError: it holds what cannot be pickled, such as a function of the user's.
    """
    if constraint is None:
        return None
    from sureact.constraints.python_type import TypedConstraint

    while isinstance(constraint, TypedConstraint):  # the way back to a Python value stays here
        constraint = constraint.inner
    try:
        return pickle.dumps(constraint, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # whatever the parts of a user's own class raise
        raise ConfigError(f"{_refusal(constraint)} cannot be pickled: {error}. {_ADVICE}") from error


def unpack_constraint(packed: bytes | None) -> Constraint | None:
    """Return what `pack_constraint` packed.

    Raises:
        ConfigError: this process cannot import its class.
    """
    if packed is None:
        return None
    try:
        return pickle.loads(packed)  # from the program that started this process
    except Exception as error:  # whatever the parts of a user's own class raise
        raise ConfigError(
            f"The constraint cannot be read in the engine's process: {type(error).__name__}: {error}. Define its class "
            f"at the top of a module that can be imported, not in the program itself. {_ADVICE}"
        ) from error


_ADVICE = "Give json_schema(...), regex(...), grammar(...) or choice(...), or use an Engine of this process."


def _refusal(constraint: Constraint) -> str:
    """Name a constraint and the part of it that cannot cross."""
    parts: dict[str, object] = {name: getattr(constraint, name) for name in getattr(constraint, "__slots__", ())}
    parts |= getattr(constraint, "__dict__", {})
    name = next((name for name, part in parts.items() if not _crosses(part)), None)
    kind = type(constraint).__qualname__
    return f"The engine is another process, and {f'{name!r} of {kind}' if name else f'a {kind}'}"


def _crosses(value: object) -> bool:
    try:
        pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:  # pickling runs what classes define
        return False
    return True


def _error_class(module: str, name: str) -> type[BaseException] | None:
    if module.partition(".")[0] not in _KNOWN_MODULES:
        return None
    found = getattr(import_module(module), name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None
