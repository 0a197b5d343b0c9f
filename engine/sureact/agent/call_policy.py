"""How a tool is called: how long one attempt may take, and which errors are tried again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from sureact.agent.cancellation import Cancellation
from sureact.agent.module_scope import current_cancellation
from sureact.errors import ConfigError, RequestAbortedError, ToolTimeoutError

_T = TypeVar("_T")

TRANSIENT = (ConnectionError, TimeoutError)
"""What is tried again unless something else is named: errors that may pass by themselves."""

_MAX_RETRIES = 20
_MAX_PAUSE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPolicy:
    """Limits of a tool's calls."""

    timeout_s: float | None = None
    """Most seconds of one attempt, more than 0; None for no limit."""
    retries: int = 0
    """Attempts after the first, 0 to 20."""
    retry_on: tuple[type[BaseException], ...] = TRANSIENT
    """Errors after which there is another attempt. A timeout of `timeout_s` counts only if `ToolTimeoutError` is named,
    because the call that was given up may have done its work."""
    backoff_s: float = 0.5
    """Seconds before the second attempt; twice as many before each further one, at most 30."""

    def __post_init__(self) -> None:
        """Validate."""
        if self.timeout_s is not None:
            require_seconds("timeout_s", self.timeout_s)
        if not _is_whole(self.retries) or not 0 <= self.retries <= _MAX_RETRIES:
            raise ConfigError(f"retries is {self.retries!r}; it must be a whole number from 0 to {_MAX_RETRIES}.")
        if not _are_error_classes(self.retry_on):
            raise ConfigError(f"retry_on is {self.retry_on!r}; it must be a tuple of exception classes.")
        if not _is_number(self.backoff_s, above=-1) or self.backoff_s < 0:
            raise ConfigError(f"backoff_s is {self.backoff_s!r}; it must be a number of seconds, at least 0.")

    def is_retried(self, error: BaseException) -> bool:
        """Whether an error gives way to another attempt."""
        if isinstance(error, ToolTimeoutError):
            return any(issubclass(kind, ToolTimeoutError) for kind in self.retry_on)
        origin_types = getattr(error, "origin_types", None)  # of an error in another process
        if origin_types is not None:
            return any(f"{kind.__module__}.{kind.__qualname__}" in origin_types for kind in self.retry_on)
        return isinstance(error, self.retry_on)

    def run(self, attempt: Callable[[], _T], cancellation: Cancellation | None = None) -> _T:
        """Run attempts until one succeeds or none is left; the error of the last one then tells how many there were.

        Raises:
            RequestAbortedError: the pause between two attempts was cancelled, by `cancellation` or with the call of
                the module that is going on.
        """
        for index in range(self.retries):
            try:
                return attempt()
            except RequestAbortedError:
                raise
            except Exception as error:
                if not self.is_retried(error):
                    raise
            self._pause(index, cancellation)
        try:
            return attempt()
        except Exception as error:
            if self.retries and self.is_retried(error):
                error.add_note(f"{self.retries + 1} attempts")
            raise

    def _pause(self, index: int, cancellation: Cancellation | None) -> None:
        seconds = self.pause_s(index)
        cancellation = cancellation or current_cancellation()  # nothing is begun for a run that is over
        if cancellation is None:
            time.sleep(seconds)
        else:
            cancellation.sleep(seconds)

    def pause_s(self, index: int) -> float:
        """Seconds between attempt `index`, from 0, and the next."""
        return min(self.backoff_s * 2**index, _MAX_PAUSE_S)


def require_seconds(name: str, value: object) -> None:
    """Judge a limit in seconds.

    Raises:
        ConfigError: it is no finite number above 0.
    """
    if not _is_number(value, above=0):
        raise ConfigError(f"{name} is {value!r}; it must be a number of seconds above 0.")


def _is_number(value: object, *, above: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > above


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_error_classes(value: object) -> bool:
    """Whether it is a tuple of classes of errors; an interrupt is none, and is never tried again."""
    if not isinstance(value, tuple):
        return False
    return all(isinstance(item, type) and issubclass(item, Exception) for item in cast("tuple[object, ...]", value))
