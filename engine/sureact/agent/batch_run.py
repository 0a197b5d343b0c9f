"""Many runs of a module at once, on threads, so that the engine computes their generations together."""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sureact.agent.cancellation import Cancellation
from sureact.agent.module_scope import cancelled_by
from sureact.agent.prediction import Example
from sureact.errors import ConfigError
from sureact.option_values import require_bool, require_whole

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.agent.prediction import Prediction

_logger = logging.getLogger(__name__)

_NUM_THREADS_WITHOUT_ENGINE = 8
_SIGNAL_POLL_S = 0.5


class WithInputs(Protocol):
    """An example that is no mapping, as those of dspy are."""

    def inputs(self) -> Any:
        """Return the fields that are inputs, with a method `items`."""


BatchExample = TypeVar("BatchExample", bound=Mapping[str, Any] | WithInputs)
"""What a module can be run on in a batch."""


class BatchRun:
    """Runs a module on every example once. For one call of `run`."""

    def __init__(
        self,
        run_module: Callable[[Mapping[str, Any]], Prediction],
        examples: Iterable[Mapping[str, Any] | WithInputs],
        max_errors: int | None,
        *,
        provide_traceback: bool = False,
    ) -> None:
        """Prepare the runs.

        Args:
            run_module: runs the module on the inputs of one example.
            examples: inputs of each run.
            max_errors: runs that may fail before no other begins; None for all.
            provide_traceback: log the tracebacks of failures, not only what they say.

        Raises:
            ConfigError: `max_errors` is no whole number, or negative; `provide_traceback` is no bool; an example is no
                mapping of names, or does not know its inputs.
        """
        require_bool("provide_traceback", provide_traceback)
        if max_errors is not None:
            require_whole("max_errors", max_errors, least=0)
        self.examples = _checked_examples(examples)
        self.predictions: list[Prediction | None] = [None] * len(self.examples)
        """In the order of the examples; None where a run failed or did not begin."""
        self.errors: dict[int, Exception] = {}
        """What made runs fail, by the index of their example."""
        self._run_module = run_module
        self._provide_traceback = provide_traceback
        self._max_errors = len(self.examples) if max_errors is None else max_errors
        self._indices = iter(range(len(self.examples)))
        self._running: dict[int, Cancellation] = {}
        self._interrupt: BaseException | None = None
        self._is_cancelled = False
        self._lock = threading.Lock()

    @property
    def has_failed(self) -> bool:
        """Whether more runs failed than may."""
        return len(self.errors) > self._max_errors

    def run(self, num_threads: int, *, shows_progress: bool) -> None:
        """Run all, and wait for them. An interrupt cancels the generations at once; running tools are waited for.

        Args:
            num_threads: runs at a time.
            shows_progress: draw a bar on standard error if that is a terminal.
        """
        with _progress_bar(len(self.examples), shows_progress) as advance:
            threads = [
                # In a copy of the context, so that it counts towards the call that it is a part of.
                _Thread(contextvars.copy_context().run, self._work, advance, name=f"sureact-batch-{i}")
                for i in range(min(num_threads, len(self.examples)))
            ]
            try:
                for thread in threads:
                    thread.start()
                _wait_for(threads)
            except BaseException:
                self._cancel()
                _wait_for(threads)
                raise
        if self._interrupt is not None:
            raise self._interrupt

    def failures(self) -> tuple[list[Any], list[Exception]]:
        """Return the examples that failed and their errors, in order."""
        failed = sorted(self.errors)
        return [self.examples[index] for index in failed], [self.errors[index] for index in failed]

    def raise_first_error(self) -> None:
        """Raise the error of the first example that failed, with a note that tells which it was."""
        index, error = min(self.errors.items())
        error.add_note(f"This was example {index} of {len(self.examples)}; {len(self.errors)} failed.")
        raise error

    def _work(self, advance: Callable[[], None]) -> None:
        while (index := self._next_index()) is not None:
            try:
                with cancelled_by(self._cancellation_of(index)):
                    self.predictions[index] = self._run_module(_inputs(self.examples[index]))
            except Exception as error:  # raised again, or returned, by the thread that called
                self.errors[index] = error
                self._log(index, error)
            except BaseException as error:  # a callback that ends the program ends the batch
                self._interrupt = error
                self._cancel()
            self._running.pop(index, None)
            advance()

    def _log(self, index: int, error: Exception) -> None:
        if not self._is_cancelled:
            traceback = error if self._provide_traceback else None
            _logger.error("Example %d failed: %s: %s", index, type(error).__name__, error, exc_info=traceback)

    def _next_index(self) -> int | None:
        with self._lock:
            return None if self._is_cancelled or self.has_failed else next(self._indices, None)

    def _cancellation_of(self, index: int) -> Cancellation:
        cancellation = Cancellation()
        with self._lock:
            self._running[index] = cancellation
            is_late = self._is_cancelled
        if is_late:
            cancellation.cancel()
        return cancellation

    def _cancel(self) -> None:
        with self._lock:
            self._is_cancelled = True
            running = list(self._running.values())
        # Each waits for the step of the engine that runs now; one after another they would wait for a step each.
        threads = [_Thread(cancellation.cancel, name="sureact-cancel") for cancellation in running]
        for thread in threads:
            thread.start()
        _wait_for(threads)


class _Thread(threading.Thread):
    """A daemon thread that can be waited for again after an interrupt; up to Python 3.12, `join` then counts it ended.

    A second interrupt must not wait for a tool that hangs, nor must Python's end, hence a daemon.
    """

    def __init__(self, function: Callable[..., object], *args: object, name: str) -> None:
        super().__init__(target=function, args=args, name=name, daemon=True)
        self._is_over = threading.Event()

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._is_over.set()

    def wait(self) -> None:
        # A signal that comes just before the thread waits is seen only when that ends.
        while not self._is_over.wait(_SIGNAL_POLL_S):
            pass
        self.join()


def check_num_threads(num_threads: int | None, lm: LanguageModel | None) -> int:
    """Return how many runs go at a time: by default as many as the engine computes together.

    Raises:
        ConfigError: it is no whole number, or below 1.
    """
    if num_threads is None:
        return getattr(getattr(lm, "config", None), "max_running_requests", _NUM_THREADS_WITHOUT_ENGINE)
    return require_whole("num_threads", num_threads)


def require_no_second_run(timeout: object, straggler_limit: object) -> None:
    """Refuse what makes dspy run a slow example once more, except the numbers that turn it off there.

    Raises:
        ConfigError: they do not turn it off.
    """
    given = {"timeout": timeout, "straggler_limit": straggler_limit}
    asked = {name: value for name, value in given.items() if value is not None}
    if asked and not any(type(value) in (int, float) and value == 0 for value in asked.values()):
        told = " and ".join(f"{name} is {value!r}" for name, value in asked.items())
        raise ConfigError(
            f"{told}; no example is run a second time here, since its tools may have acted. Leave it out, or give 0. "
            "TokenLimits(max_seconds=...) ends a slow run of an agent."
        )


def _checked_examples(examples: Iterable[Mapping[str, Any] | WithInputs]) -> list[Mapping[str, Any] | WithInputs]:
    if isinstance(examples, str | bytes | Mapping) or not isinstance(examples, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"examples is {examples!r}; it must be a list of mappings from inputs to values.")
    checked = list(examples)
    for index, example in enumerate(checked):
        try:
            inputs = _inputs(example)
        except (ConfigError, ValueError) as error:  # dspy raises ValueError where inputs are not named
            raise ConfigError(f"Example {index}: {error}") from error
        except (AttributeError, TypeError):
            inputs = None
        if not isinstance(inputs, Mapping) or not all(isinstance(name, str) for name in inputs):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"Example {index} is {example!r}; it must be a mapping from inputs to values.")
    return checked


def _inputs(example: Any) -> Mapping[str, Any]:
    # Not `example.inputs()` of our own examples: a field may have that name.
    if isinstance(example, Example):
        return Example.inputs(example)
    return example if isinstance(example, Mapping) else dict(example.inputs().items())


def _wait_for(threads: Sequence[_Thread]) -> None:
    for thread in threads:
        if thread.ident is not None:  # an interrupt may come before all are started
            thread.wait()


@contextmanager
def _progress_bar(total: int, is_wanted: bool) -> Generator[Callable[[], None]]:
    """Draw a bar while the block runs; yield what moves it on by one."""
    if not is_wanted or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)
