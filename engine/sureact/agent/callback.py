"""Handlers that are told of each call of a module, a model and a tool, as it begins and as it ends."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, get_args

from sureact.agent.module_scope import active_callbacks
from sureact.errors import ConfigError

_logger = logging.getLogger(__name__)
_call_id: ContextVar[str | None] = ContextVar("sureact_call_id", default=None)


class Callback:
    """Subclass it, override what is of interest, and give an object of it to a module: `callbacks=[...]`.

    It is told of the calls of its module, and of all that these call: modules, models and tools. Handlers run on the
    thread of the call. One that raises is logged, and the call goes on.
    """

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """A module is called.

        Args:
            call_id: of this call; the end has the same.
            instance: the module.
            inputs: its arguments by name.
        """

    def on_module_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """A module returned `outputs`, or raised."""

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """A text is generated.

        Args:
            call_id: of this call; the end has the same.
            instance: the model.
            inputs: `prompt`, all that the model reads; `params`; `constraint`, or None.
        """

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """A text is there, as a `StepOutput`; or it is None, and `exception` says why, unless the reader gave up."""

    def on_tool_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """A tool is called.

        Args:
            call_id: of this call; the end has the same.
            instance: the `Tool`.
            inputs: its arguments.
        """

    def on_tool_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """A tool gave the observation `outputs`; where that tells of an error, `exception` is one that holds it."""


Kind = Literal["module", "lm", "tool"]
_HANDLERS = tuple(f"on_{kind}_{end}" for kind in get_args(Kind) for end in ("start", "end"))


def active_call_id() -> str | None:
    """Return the id of the innermost call that is going on; in a handler, of the one around that it tells of."""
    return _call_id.get()


class ObservedCall:
    """A call that handlers are told of."""

    outputs: Any = None
    """What the end tells."""
    exception: BaseException | None = None

    def __init__(self, kind: Kind, own: Iterable[Callback] = ()) -> None:
        self.call_id = uuid.uuid4().hex
        self._kind = kind
        self._callbacks = active_callbacks(own)

    @property
    def is_heard(self) -> bool:
        """Whether there is anybody to tell."""
        return bool(self._callbacks)

    def start(self, instance: object, inputs: Mapping[str, Any]) -> None:
        """Tell that the call begins."""
        for callback in self._callbacks:
            handler = getattr(callback, f"on_{self._kind}_start", None)
            _tell(handler, call_id=self.call_id, instance=instance, inputs=dict(inputs))

    def end(self) -> None:
        """Tell that the call is over."""
        for callback in self._callbacks:
            handler = getattr(callback, f"on_{self._kind}_end", None)
            _tell(handler, call_id=self.call_id, outputs=self.outputs, exception=self.exception)


@contextmanager
def observed(
    kind: Kind, instance: object, inputs: Mapping[str, Any], own: Iterable[Callback] = ()
) -> Generator[ObservedCall]:
    """Tell handlers of the call that the block is; it sets `outputs` before it ends.

    Args:
        kind: what is called.
        instance: the object that is called.
        inputs: its arguments by name.
        own: handlers beside those of the modules that are being called.
    """
    call = ObservedCall(kind, own)
    call.start(instance, inputs)
    token = _call_id.set(call.call_id)
    try:
        yield call
    except BaseException as error:
        call.exception = error
        raise
    finally:
        _call_id.reset(token)
        call.end()


def checked_callbacks(callbacks: Iterable[Callback]) -> list[Callback]:
    """Return callbacks as a list. Objects of other classes may be among them, such as those that users of dspy have.

    Raises:
        ConfigError: one is a class, or has no handler.
    """
    if not isinstance(callbacks, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"callbacks is {callbacks!r}; it must be a list of callbacks.")
    callbacks = list(callbacks)
    for callback in callbacks:
        if isinstance(callback, type) or not any(hasattr(callback, name) for name in _HANDLERS):
            raise ConfigError(
                f"A callback is {callback!r}; it must be an object with some of {', '.join(_HANDLERS)}, as an object "
                "of a subclass of sureact.Callback is."
            )
    return callbacks


def _tell(handler: Callable[..., object] | None, **values: Any) -> None:
    if handler is None:
        return
    try:
        handler(**values)
    except Exception as error:  # the user's own code, which only watches
        _logger.warning("A callback failed: %s raised %s: %s", _name(handler), type(error).__name__, error)


def _name(handler: Callable[..., object]) -> str:
    return getattr(handler, "__qualname__", repr(handler))
