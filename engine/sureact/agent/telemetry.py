"""Tells runs as spans to OpenTelemetry, through its API alone: where they go is the program's own setting.

Names and attributes follow the semantic conventions for generative AI; texts are not among them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sureact import __version__
from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.outputs import StepOutput


def spans_maker(is_wanted: bool) -> Callable[[], RunSpans | None]:
    """Return what makes the spans of a run; of nothing, where they are not wanted.

    Raises:
        ConfigError: the package is missing.
    """
    if not is_wanted:
        return lambda: None
    try:
        import_module("opentelemetry.trace")
    except ImportError as error:
        raise ConfigError(
            "otel=True needs the package opentelemetry-api, which is not installed: pip install 'sureact[otel]'."
        ) from error
    return RunSpans


class RunSpans:
    """The spans of one run: itself, and in it each generation and each call of a tool."""

    def __init__(self) -> None:
        from opentelemetry import trace

        self._trace = trace
        self._tracer = trace.get_tracer("sureact", __version__)
        self._run: Any = None
        self._model = ""
        self._tools: dict[int, Any] = {}
        self._token: Any = None

    def begin(self, model: str, run_id: str) -> None:
        """Begin the run, in the span that is current now."""
        self._model = model
        self._run = self._tracer.start_span(
            "invoke_agent sureact",
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "sureact",
                "gen_ai.request.model": model,
                "sureact.run_id": run_id,
            },
        )

    def generations(self, part: str, outputs: Sequence[StepOutput]) -> None:
        """Tell of generations that followed one another, the last of which has just ended."""
        ends_ns: list[int] = []
        end_ns = time.time_ns()
        for output in reversed(outputs):
            ends_ns.append(end_ns)
            end_ns -= _duration_ns(output)
        for output, its_end_ns in zip(outputs, reversed(ends_ns), strict=True):
            self._generation(part, output, its_end_ns)

    def tool_started(self, step_index: int, name: str) -> None:
        """Begin the span of a call.

        Spans of the tool itself lie in it where the call is alone; those of calls side by side lie in the run's.
        """
        self._tools[step_index] = span = self._tracer.start_span(
            f"execute_tool {name}",
            context=self._context(),
            attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name},
        )
        self._make_current(span if len(self._tools) == 1 else self._run)

    def tool_ended(self, step_index: int, *, is_error: bool) -> None:
        """End the span of a call, if one began."""
        span = self._tools.pop(step_index, None)
        if span is None:
            return
        if not self._tools:
            self._make_current(None)
        if is_error:
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
        span.end()

    def close(self, error: BaseException | None) -> None:
        """End the run."""
        if self._run is None:
            return
        for step_index in list(self._tools):
            self.tool_ended(step_index, is_error=True)
        if error is not None:
            # The message may hold what nobody else is to read, so only the class is told.
            self._run.set_status(self._trace.Status(self._trace.StatusCode.ERROR, type(error).__name__))
        self._run.end()
        self._run = None

    def _generation(self, part: str, output: StepOutput, end_ns: int) -> None:
        span = self._tracer.start_span(
            f"chat {self._model}",
            context=self._context(),
            kind=self._trace.SpanKind.INTERNAL,
            start_time=end_ns - _duration_ns(output),
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": self._model,
                "gen_ai.usage.input_tokens": output.usage.prompt_tokens,
                "gen_ai.usage.output_tokens": output.usage.completion_tokens,
                "gen_ai.response.finish_reasons": [output.finish_reason],
                "sureact.part": part,
                "sureact.cached_tokens": output.usage.cached_tokens,
                "sureact.forced_tokens": output.usage.forced_tokens,
                "sureact.prefill_s": output.timings.prefill_s,
                "sureact.decode_s": output.timings.decode_s,
                "sureact.mask_s": output.timings.mask_s,
            },
        )
        span.end(end_time=end_ns)

    def _make_current(self, span: Any) -> None:
        """Make a span current in place of the one that was made so before; None for none."""
        from opentelemetry import context

        if self._token is not None:
            context.detach(self._token)
        self._token = None if span is None else context.attach(self._trace.set_span_in_context(span))

    def _context(self) -> Any:
        return self._trace.set_span_in_context(self._run)


def _duration_ns(output: StepOutput) -> int:
    return int((output.timings.prefill_s + output.timings.decode_s) * 1e9)
