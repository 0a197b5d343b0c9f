"""The tools of one run of an agent: its instances, the approval of its calls, and calls that run side by side."""

from __future__ import annotations

import contextvars
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from sureact.agent.approval import Approve, Deny, Edit, Verdict, ask
from sureact.agent.callback import observed
from sureact.agent.module_scope import current_cancellation
from sureact.agent.tool import FINISH, Tool
from sureact.agent.tool_call import MAX_RESULT_CHARACTERS, ToolResult, refusal, run_tool
from sureact.agent.tool_state import RunInstances
from sureact.errors import ConfigError, ToolExecutionError
from sureact.option_values import require_bool, require_whole

if TYPE_CHECKING:
    from sureact.agent.cancellation import Cancellation

MAX_PARALLEL_CALLS = 16
"""Calls that run at a time."""


class ToolCall(NamedTuple):
    """A tool and the arguments to call it with."""

    tool_name: str
    args: Mapping[str, Any]


class _Decided(NamedTuple):
    """A call that may run, or what it gave already."""

    tool: Tool
    args: Mapping[str, Any]
    is_edited: bool = False
    result: ToolResult | None = None
    verdict: Verdict | None = None


class ToolRun:
    """Runs the calls of one run. Leaving its `with` block leaves the instances that the run made.

    The built-in `finish` is neither asked about nor skipped.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        *,
        approve: Approve | None = None,
        dry_run: bool = False,
        cancellation: Cancellation | None = None,
        max_characters: int | None = None,
    ) -> None:
        """Bind the tools to the run.

        Args:
            tools: the tools by name.
            approve: decides on each call before it runs; None allows all.
            dry_run: run no tool; the observations say so.
            cancellation: gives running calls up. Tools run on threads of their own then. Without it, calls that run
                are not given up, but none begins once the call of the module that is going on is cancelled.

            max_characters: most of an observation, after which it is cut, with a note; None for no limit.

        Raises:
            ConfigError: an option is not allowed.
        """
        check_run_options(approve, dry_run)
        self._instances = RunInstances()
        self._tools = {name: tool.bound_to(self._instances) for name, tool in tools.items()}
        self._approve = approve
        self._dry_run = dry_run
        self._cancellation = cancellation
        self._max_characters = None if max_characters is None else require_whole("max_characters", max_characters)
        self._ended_by = cancellation or current_cancellation()

    def __enter__(self) -> ToolRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._instances.close()

    def run(
        self, tool_name: str, args: Mapping[str, Any], on_decided: Callable[[Verdict | None], None] | None = None
    ) -> ToolResult:
        """Run a call, if it is approved.

        Args:
            tool_name: the tool.
            args: parsed JSON.
            on_decided: called before the tool runs, with the decision on the call; None where nobody was asked.

        Raises:
            ConfigError: there is no such tool.
            ToolExecutionError: edited arguments do not fit the schema of the tool.
            RequestAbortedError: the call was cancelled.
        """
        decided = self._decide(ToolCall(tool_name, args))
        self._raise_if_cancelled()
        if on_decided is not None:
            on_decided(decided.verdict)
        return self._execute(decided)

    def run_tools(
        self, calls: Iterable[ToolCall], on_decided: Callable[[int, Verdict | None], None] | None = None
    ) -> list[ToolResult]:
        """Run calls side by side, each on a thread, and return the results in the order of the calls.

        All are decided on before the first one runs. Calls of methods of one instance run one after another, in their
        order. What cannot become an observation, such as an interrupt, is raised once the others are done.

        Args:
            calls: the calls.
            on_decided: called with the position of each, and the decision on it, once all are decided on.

        Raises:
            See `run`.
        """
        decided = [self._decide(call) for call in calls]
        self._raise_if_cancelled()
        if on_decided is not None:
            for index, call in enumerate(decided):
                on_decided(index, call.verdict)
        if len(decided) < 2:
            return [self._execute(call) for call in decided]
        return _Lanes(decided, self._execute).run()

    def _decide(self, call: ToolCall) -> _Decided:
        tool = self._tools.get(call.tool_name)
        if tool is None:
            raise ConfigError(f"There is no tool {call.tool_name!r}; there are {', '.join(self._tools)}.")
        decided = _Decided(tool, call.args)
        if tool.name == FINISH:
            return decided
        if self._approve is None and not self._dry_run:
            return decided
        if (refused := refusal(tool, call.args)) is not None:  # nobody is asked about it
            return decided._replace(result=refused)
        if self._approve is not None:
            self._raise_if_cancelled()
            verdict = ask(self._approve, tool, call.args, self._ended_by)
            decided = decided._replace(verdict=verdict)
            if isinstance(verdict, Deny):
                return decided._replace(result=_denied(tool, verdict))
            if isinstance(verdict, Edit):
                is_edited = dict(verdict.args) != dict(call.args)
                decided = decided._replace(args=verdict.args, is_edited=is_edited)
        if self._dry_run:
            return decided._replace(result=_not_run(tool))
        return decided

    def _execute(self, call: _Decided) -> ToolResult:
        result = call.result or self._call(call)
        return with_edit_note(result, call.args) if call.is_edited else result

    def _call(self, call: _Decided) -> ToolResult:
        self._raise_if_cancelled()
        with observed("tool", call.tool, call.args) as told:
            result = run_tool(call.tool, call.args, self._cancellation, max_characters=self._max_characters)
            told.outputs = result.observation
            told.exception = ToolExecutionError(result.observation) if result.is_error else None
            return result

    def _raise_if_cancelled(self) -> None:
        """Begin nothing more of a run that is over: nobody reads what it gives, and it may have effects."""
        if self._ended_by is not None:
            self._ended_by.raise_if_cancelled()


class _Lanes:
    """Runs calls on threads; those of one lane one after another."""

    def __init__(self, calls: Sequence[_Decided], execute: Any) -> None:
        self._calls = calls
        self._execute = execute
        self._results: list[ToolResult | None] = [None] * len(calls)
        self._errors: dict[int, BaseException] = {}
        lanes: dict[object, list[int]] = {}
        for index, call in enumerate(calls):
            lanes.setdefault(call.tool.state or index, []).append(index)
        self._lanes = deque(lanes.values())

    def run(self) -> list[ToolResult]:
        num_threads = min(len(self._lanes), MAX_PARALLEL_CALLS)
        threads = [
            threading.Thread(
                target=contextvars.copy_context().run, args=(self._work,), name=f"sureact-calls-{index}", daemon=True
            )
            for index in range(num_threads)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:  # an interrupt: what runs is left behind, the others do not begin
            self._lanes.clear()
            raise
        if self._errors:
            raise self._errors[min(self._errors)]
        return [result for result in self._results if result is not None]

    def _work(self) -> None:
        while True:
            try:
                lane = self._lanes.popleft()
            except IndexError:
                return
            for index in lane:
                try:
                    self._results[index] = self._execute(self._calls[index])
                except BaseException as error:  # raised again by the thread that called
                    self._errors[index] = error


def run_tools(
    calls: Iterable[ToolCall],
    tools: Mapping[str, Tool],
    *,
    approve: Approve | None = None,
    dry_run: bool = False,
    cancellation: Cancellation | None = None,
    max_characters: int | None = MAX_RESULT_CHARACTERS,
) -> list[ToolResult]:
    """Run calls side by side, as a run of its own; see `ToolRun`. Refused arguments are a result too."""
    options: dict[str, Any] = {"approve": approve, "dry_run": dry_run, "cancellation": cancellation}
    with ToolRun(tools, **options, max_characters=max_characters) as run:
        return run.run_tools(calls)


def check_run_options(approve: object, dry_run: object) -> None:
    """Judge the options of a run.

    Raises:
        ConfigError: `approve` cannot be called, or `dry_run` is no bool.
    """
    if approve is not None and not callable(approve):
        raise ConfigError(f"approve is {approve!r}; it must be a function that takes a PendingCall, or None.")
    require_bool("dry_run", dry_run)


def _denied(tool: Tool, verdict: Deny) -> ToolResult:
    reason = f": {verdict.reason}" if verdict.reason else "."
    return ToolResult(f"The user did not allow this call of {tool.name}{reason}", True, 0.0, outcome="denied")


def _not_run(tool: Tool) -> ToolResult:
    return ToolResult(f"Dry run: {tool.name} was not called, so there is no result.", False, 0.0, outcome="dry_run")


def with_edit_note(result: ToolResult, args: Mapping[str, Any]) -> ToolResult:
    """Return what a call gave with a note for the model, that the user changed its arguments to these."""
    written = json.dumps(args, ensure_ascii=False)
    note = f"The user changed the arguments of this call to {written}. It gave: {result.observation}"
    return replace(result, observation=note, args=dict(args))
