"""What runs in the process of a file of tools: reads messages from its standard input, answers on its standard output.

Both are lines of JSON. Every call runs on a thread, which steps back for the engine if it computes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from sureact.agent.cancellation import Cancellation
from sureact.agent.isolated_worker import answer, begin, failure, messages_of, send, take_path
from sureact.agent.tool_file import load_tools
from sureact.agent.tool_state import RunInstances, ToolState
from sureact.errors import SureactError

if TYPE_CHECKING:
    from sureact.agent.tool import Tool


def main() -> None:
    """Serve until the input ends."""
    requests, replies = begin()
    lock = threading.Lock()

    def reply(message: Mapping[str, Any]) -> None:
        with lock:
            send(replies, message)

    host = ToolHost(reply)
    for message in messages_of(requests):
        host.take(message)


class ToolHost:
    """Runs the tools of a file."""

    def __init__(self, reply: Callable[[Mapping[str, Any]], None]) -> None:
        """Take what sends an answer, from any thread."""
        self._reply = reply
        self._tools: dict[str, Tool] = {}
        self._runs: dict[int, RunInstances] = {}
        self._calls: dict[int, Cancellation] = {}

    def take(self, message: Mapping[str, Any]) -> None:
        """Begin what a message asks for: `load`, `call`, `cancel` or `end_run`."""
        match message:
            case {"load": str(file), "id": int(call_id)}:
                take_path(message["path"])
                self._reply({"id": call_id, **self._load(file, message["timeout_s"])})
            case {"call": str(name), "id": int(call_id)}:
                self._calls[call_id] = Cancellation()
                tool = self._tool(name, message["run"])
                _start(partial(self._call, call_id, tool, message["args"]), "sureact-call")
            case {"cancel": int(call_id)}:
                if (cancellation := self._calls.get(call_id)) is not None:
                    cancellation.cancel()
            case {"end_run": int(run_id)}:
                if (instances := self._runs.pop(run_id, None)) is not None:
                    _start(instances.close, "sureact-run-end")
            case _:
                raise TypeError(f"{dict(message)!r} is no message")

    def _load(self, file: str, timeout_s: float) -> dict[str, Any]:
        try:
            self._tools = {tool.name: tool.with_timeout(timeout_s) for tool in load_tools(file)}
        except SureactError as error:
            return {"message": str(error)}
        states: dict[ToolState, int] = {}
        return {"tools": [_description(tool, states) for tool in self._tools.values()]}

    def _tool(self, name: str, run_id: int | None) -> Tool:
        tool = self._tools[name]
        return tool if run_id is None else tool.bound_to(self._runs.setdefault(run_id, RunInstances()))

    def _call(self, call_id: int, tool: Tool, args: Mapping[str, Any]) -> None:
        try:
            reply = answer(tool, args, self._calls[call_id])
        except BaseException as error:  # a tool may raise an interrupt, which must not leave the program waiting
            reply = failure(error)
        del self._calls[call_id]
        self._reply({"id": call_id, **reply})


def _description(tool: Tool, states: dict[ToolState, int]) -> dict[str, Any]:
    """Return what the program must know of a tool; tools that share a state have the same number."""
    policy = tool.policy
    most_s = (policy.timeout_s or 0.0) * (policy.retries + 1) + sum(map(policy.pause_s, range(policy.retries)))
    return {
        "name": tool.name,
        "desc": tool.desc,
        "args": tool.parameters,
        "title": tool.title,
        "repeatable": tool.repeatable,
        "idempotent": tool.idempotent,
        "most_s": most_s,
        "state": None if tool.state is None else states.setdefault(tool.state, len(states)),
    }


def _start(work: Callable[[], None], name: str) -> None:
    threading.Thread(target=work, name=name, daemon=True).start()
