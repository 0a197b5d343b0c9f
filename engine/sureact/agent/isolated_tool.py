"""Runs a tool in processes of its own, at the lowest priority, so that the engine goes first."""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from sureact.agent.tool_process import end_tool_process, import_path, start_tool_process
from sureact.agent.tool_thread import LeftBehind, run_on_thread
from sureact.errors import ToolDefinitionError, ToolExecutionError, ToolTimeoutError

if TYPE_CHECKING:
    from sureact.agent.cancellation import Cancellation

_START_TIMEOUT_S = 120.0
_WORKER = "sureact.agent.isolated_worker"
_VARIABLE = "SUREACT_ISOLATED_WORKER"
_POLL_S = 0.05


class IsolatedCallError(ToolExecutionError):
    """What a tool raised in its process."""

    def __init__(self, message: str, type_name: str, origin_types: tuple[str, ...]) -> None:
        super().__init__(message)
        self.type_name = type_name
        """Name of the class that was raised."""
        self.origin_types = origin_types
        """Module and name of the class and its bases."""


class IsolatedTool:
    """Calls a function in a process that stays for further calls; as many processes as there are processors."""

    def __init__(self, func: Callable[..., object], tool_name: str, args: Mapping[str, Any] | None) -> None:
        """Note where the function is; no process is started yet.

        Args:
            func: a function that can be imported.
            tool_name: for messages.
            args: the given schema of all arguments, None if they are read from annotations.

        Raises:
            ToolDefinitionError: another process cannot import the function.
        """
        self._start = {
            **_place(func, tool_name),
            "name": tool_name,
            "args": None if args is None else dict(args),
            "path": import_path(),
        }
        self._tool_name = tool_name
        self._idle: list[_Worker] = []
        self._slots = threading.Semaphore(os.cpu_count() or 1)
        self._lock = threading.Lock()
        # At the program's end too.
        weakref.finalize(self, _end_all, self._idle, self._lock)

    def __call__(
        self,
        args: Mapping[str, object],
        render: object,
        timeout_s: float | None,
        cancellation: Cancellation | None,
    ) -> str:
        """Call the function; see `Tool.run`. The result is the text that a model reads, whatever `render` is.

        Raises:
            ToolTimeoutError: it gave no result in time; its process was ended.
            RequestAbortedError: `cancellation` was cancelled; its process was ended.
            IsolatedCallError: it raised.
            ToolExecutionError: its process ended, or did not start.
        """
        waited_s = self._take_slot(timeout_s, cancellation)
        try:
            worker = self._take_worker(cancellation)
            try:
                reply = worker.ask(args, timeout_s, cancellation, waited_s)
            except BaseException:  # nobody waits for its answer any more
                worker.end()
                raise
            with self._lock:
                self._idle.append(worker)
        finally:
            self._slots.release()
        return text_of(reply)

    def _take_slot(self, timeout_s: float | None, cancellation: Cancellation | None) -> float:
        """Wait until a process may be used; return the seconds that it took, which are a part of the call."""
        start = time.monotonic()
        while not self._slots.acquire(timeout=_POLL_S):
            if cancellation is not None:
                cancellation.raise_if_cancelled()
            if timeout_s is not None and time.monotonic() - start > timeout_s:
                raise ToolTimeoutError(f"every process of {self._tool_name} was busy for {timeout_s:g} s")
        return time.monotonic() - start

    def _take_worker(self, cancellation: Cancellation | None) -> _Worker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.is_alive:
                    return worker
                worker.end()
        worker = _Worker()
        try:
            text_of(worker.ask(self._start, _START_TIMEOUT_S, cancellation))
        except BaseException as error:
            worker.end()
            if isinstance(error, ToolTimeoutError | IsolatedCallError):
                raise ToolExecutionError(f"the process of {self._tool_name} did not start: {error}") from error
            raise
        return worker


class _Worker:
    """A process that answers one message at a time."""

    def __init__(self) -> None:
        if os.environ.get(_VARIABLE):
            raise ToolExecutionError(
                "an isolated tool was called while the program was loaded into the process of a tool. Put what the "
                "program does below `if __name__ == '__main__':`."
            )
        self._process = start_tool_process(_WORKER, **{_VARIABLE: "1"})

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def ask(
        self,
        message: Mapping[str, object],
        timeout_s: float | None,
        cancellation: Cancellation | None,
        waited_s: float = 0.0,
    ) -> dict[str, Any]:
        """Send a message and wait for the answer, as long as is left of `timeout_s` after `waited_s`."""
        line = json.dumps(message).encode() + b"\n"
        left_s = None if timeout_s is None else max(timeout_s - waited_s, 0.0)
        try:
            reply = run_on_thread(lambda: self._exchange(line), left_s, cancellation, LeftBehind())
        except ToolTimeoutError as error:
            raise ToolTimeoutError(f"no result within {round(timeout_s or 0, 3):g} s; its process was ended") from error
        if not reply:
            code = self._process.wait()
            raise ToolExecutionError(f"its process ended with exit code {code}")
        return json.loads(reply)

    def end(self) -> None:
        """Kill the process with what it started, and close its pipes."""
        end_tool_process(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # what was written last is lost with the process

    def _exchange(self, line: bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            return b""  # the process has ended, which the caller tells
        return self._process.stdout.readline()


def _place(func: Any, tool_name: str) -> dict[str, Any]:
    """Return where another process finds a function."""
    module = sys.modules.get(getattr(func, "__module__", None) or "")
    found: Any = module
    for name in getattr(func, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    if not inspect.isroutine(func) or module is None or found is not func:
        raise ToolDefinitionError(
            f"Tool {tool_name!r} is to run in a process of its own, but that cannot import {func!r}. Give a function "
            "that is defined at the top of a module."
        )
    spec = getattr(module, "__spec__", None)
    if module.__name__ == "__main__" and spec is not None:  # `python -m package.module`
        return {"module": spec.name, "qualname": func.__qualname__, "file": None}
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__" and file is None:
        raise ToolDefinitionError(
            f"Tool {tool_name!r} is to run in a process of its own, but it is defined in no file. Put it into one."
        )
    return {
        "module": module.__name__,
        "qualname": func.__qualname__,
        "file": None if file is None else os.path.abspath(file),
    }


def text_of(reply: Mapping[str, Any]) -> str:
    """Return what a tool gave in its process.

    Raises:
        IsolatedCallError: it raised.
    """
    if "text" in reply:
        return cast("str", reply["text"])
    raise IsolatedCallError(reply["message"], reply["error"], tuple(reply["types"]))


def _end_all(workers: list[_Worker], lock: threading.Lock) -> None:
    with lock:
        for worker in workers:
            worker.end()
        workers.clear()
