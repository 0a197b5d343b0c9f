"""Runs a file of tools in a process of its own, so that none of them shares the engine's interpreter.

Unlike `Tool(..., isolate=True)`, which gives each function processes of its own, the whole file is run there, once:
its tools share what it holds, and may be anything that tools can be.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

from sureact.agent.isolated_tool import text_of
from sureact.agent.tool import Tool
from sureact.agent.tool_process import end_tool_process, import_path, start_tool_process
from sureact.agent.tool_state import RunInstances, ToolMethod, ToolState
from sureact.distributed.worker_processes import exit_name
from sureact.errors import ToolDefinitionError, ToolExecutionError, ToolTimeoutError

_GRACE_S = 5.0
"""Beyond the limit of a call, which its process watches over: then that does not answer at all."""
_TIMEOUT_TYPE = f"{ToolTimeoutError.__module__}.{ToolTimeoutError.__qualname__}"


def hosted_tools(path: str | Path, timeout_s: float) -> list[Tool]:
    """Run a file in a process of its own and return its tools, as `load_tools` finds them.

    They give the text that a model reads. Where the process ends, the calls that wait raise, and the next one runs the
    file anew. The process ends with the tools, or with the program.

    Args:
        path: of the file.
        timeout_s: most seconds of a call of a tool that has no `timeout_s` of its own.

    Raises:
        ToolDefinitionError: see `load_tools`.
    """
    host = _Host(os.path.abspath(path), timeout_s)
    states: dict[int, ToolState] = {}
    return [_tool(host, dict(description), states) for description in host.open()]


def _tool(host: _Host, description: dict[str, Any], states: dict[int, ToolState]) -> Tool:
    name, number, most_s = description["name"], description.pop("state"), description.pop("most_s")
    if number is None:

        async def call(**args: object) -> str:
            return await host.call(name, args)

        func = call
    else:
        state = states.setdefault(number, ToolState(_HostedRun, lambda: _HostedRun(host)))
        func = _HostedMethod(state, name)
    return Tool(func, timeout_s=most_s + _GRACE_S, **description)


class _HostedRun:
    """Stands for the instances that a run has in the process."""

    def __init__(self, host: _Host) -> None:
        self._host = host
        self._run_id = host.new_run_id()

    async def call(self, name: str, args: Mapping[str, object]) -> str:
        return await self._host.call(name, args, self._run_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._host.end_run(self._run_id)


class _HostedMethod(ToolMethod):
    """A method of an instance in the process."""

    def __init__(self, state: ToolState, tool_name: str) -> None:
        super().__init__(state, "call")
        self._tool_name = tool_name

    def call_in(self, instances: RunInstances, /, **args: object) -> object:
        run = instances.of(self.state)
        assert isinstance(run, _HostedRun)
        return run.call(self._tool_name, args)


class _Host:
    """The process of a file, begun again where it ended."""

    def __init__(self, file: str, timeout_s: float) -> None:
        self._start = {"load": file, "timeout_s": timeout_s, "path": import_path()}
        self._run_ids = itertools.count(1)
        self._lock = threading.Lock()
        self._process: _Process | None = None

    def open(self) -> list[dict[str, Any]]:
        """Run the file, and return what it describes.

        Raises:
            ToolDefinitionError: it cannot be used.
        """
        process = _Process()
        weakref.finalize(self, process.end)
        try:
            reply = process.ask(self._start)[1].result()
        except ToolExecutionError as error:
            raise ToolDefinitionError(f"{self._start['load']}: {error} while it ran the file.") from error
        if "tools" not in reply:
            process.end()
            raise ToolDefinitionError(reply["message"])
        self._process = process
        return reply["tools"]

    async def call(self, name: str, args: Mapping[str, object], run_id: int | None = None) -> str:
        """Call a tool, from any event loop. When the task is cancelled, the process gives the call up."""
        process = self._process
        if process is None or not process.is_alive:
            process = await asyncio.to_thread(self._reopened)
        call_id, reply = process.ask({"call": name, "args": args, "run": run_id})
        try:
            answer = await asyncio.wrap_future(reply)
        except asyncio.CancelledError:
            process.tell({"cancel": call_id})
            raise
        if _TIMEOUT_TYPE in answer.get("types", ()):
            raise ToolTimeoutError(answer["message"])
        return text_of(answer)

    def new_run_id(self) -> int:
        return next(self._run_ids)

    def end_run(self, run_id: int) -> None:
        if self._process is not None:
            self._process.tell({"end_run": run_id})

    def _reopened(self) -> _Process:
        with self._lock:
            if self._process is None or not self._process.is_alive:
                self.open()
            assert self._process is not None
            return self._process


class _Process:
    """One life of the process: sends messages, and hands answers to those who wait."""

    def __init__(self) -> None:
        self._process = start_tool_process("sureact.agent.tool_host")
        self._outbox: SimpleQueue[bytes] = SimpleQueue()
        self._ids = itertools.count(1)
        self._replies: dict[int, Future[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self.is_alive = True
        for work in (self._send_all, self._read_all):
            threading.Thread(target=work, name="sureact-tool-host", daemon=True).start()

    def ask(self, message: Mapping[str, object]) -> tuple[int, Future[dict[str, Any]]]:
        """Send a message that is answered; return its number and the answer to come."""
        reply: Future[dict[str, Any]] = Future()
        call_id = next(self._ids)
        with self._lock:
            if self.is_alive:
                self._replies[call_id] = reply
            else:
                reply.set_exception(self._loss())
        self.tell({**message, "id": call_id})
        return call_id, reply

    def tell(self, message: Mapping[str, object]) -> None:
        """Send a message, without waiting."""
        self._outbox.put(json.dumps(message).encode() + b"\n")

    def end(self) -> None:
        """End the process."""
        end_tool_process(self._process)

    def _send_all(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError), self._process.stdin as pipe:  # the reader tells that the process ended
            while self.is_alive:
                pipe.write(self._outbox.get())
                pipe.flush()

    def _read_all(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            for line in pipe:
                message = json.loads(line)
                with suppress(InvalidStateError):  # nobody waits for it any more
                    self._replies.pop(message.pop("id")).set_result(message)
        self._process.wait()
        with self._lock:
            self.is_alive = False
        for reply in self._replies.values():
            with suppress(InvalidStateError):
                reply.set_exception(self._loss())
        self._replies.clear()
        self.tell({})  # so that the thread that sends ends too

    def _loss(self) -> ToolExecutionError:
        return ToolExecutionError(f"the process of the tools ended with {exit_name(self._process.wait())}")
