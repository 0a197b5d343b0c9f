"""What a run writes into its trace file, record by record; nothing when there is no file."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sureact import __version__
from sureact.agent.tool_notation import function_notation
from sureact.agent.trace import TRACE_VERSION, TraceWriter

if TYPE_CHECKING:
    from sureact.agent.agent_run import Call
    from sureact.agent.prediction import RunUsage
    from sureact.agent.tool import Tool
    from sureact.agent.trajectory import Step


class RunTrace:
    """The trace of one run. Leaving its `with` block by an error, Ctrl-C included, records that the run was aborted."""

    def __init__(self, path: str | Path | None) -> None:
        """Open the file.

        Raises:
            TraceError: it cannot be opened.
        """
        self._run_id = uuid.uuid4().hex
        self._writer = TraceWriter(path) if path is not None else None

    def __enter__(self) -> RunTrace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._writer is None:
            return
        try:
            if kind is not None:
                self._write("aborted", error=kind.__name__, message=str(error))
        finally:
            self._writer.close()

    def header(self, model: str, prompt_format: str, tools: Mapping[str, Tool], inputs: Mapping[str, Any]) -> None:
        """Record what the run starts from."""
        self._write(
            "header",
            version=TRACE_VERSION,
            sureact_version=__version__,
            model=model,
            prompt_format=prompt_format,
            tools=[function_notation(tool)["function"] for tool in tools.values()],
            inputs=dict(inputs),
        )

    def thought(self, step_index: int, text: str) -> None:
        """Record a thought."""
        self._write("thought", step=step_index, text=text)

    def call_started(self, step_index: int, call: Call) -> None:
        """Record a call, before its tool runs."""
        self._write("call_started", step=step_index, tool_name=call.tool_name, tool_args=call.tool_args)

    def observation(self, step: Step) -> None:
        """Record a finished step."""
        self._write("observation", step=step.index, finished=asdict(step))

    def truncated(self, dropped_steps: tuple[int, ...]) -> None:
        """Record that steps left the context."""
        self._write("truncated", dropped_steps=dropped_steps)

    def outputs(self, outputs: Mapping[str, Any], termination_reason: str, usage: RunUsage) -> None:
        """Record the end of the run."""
        self._write("outputs", outputs=dict(outputs), termination_reason=termination_reason, usage=asdict(usage))

    def _write(self, record_type: str, **values: object) -> None:
        if self._writer is not None:
            self._writer.write(record_type, run_id=self._run_id, **values)
