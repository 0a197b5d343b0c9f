"""Tells runs as spans to OpenTelemetry, through its API alone: where they go is the program's own setting.

Names and attributes follow the semantic conventions for generative AI; texts are not among them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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
        self._tool: Any = None
        self._tool_token: Any = None

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

    def generation(self, part: str, output: StepOutput) -> None:
        """Tell of a generation that has just ended."""
        end_ns = time.time_ns()
        seconds = output.timings.prefill_s + output.timings.decode_s
        span = self._tracer.start_span(
            f"chat {self._model}",
            context=self._context(),
            kind=self._trace.SpanKind.INTERNAL,
            start_time=end_ns - int(seconds * 1e9),
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

    def tool_started(self, name: str) -> None:
        """Begin the span of a tool and make it current, so that spans of the tool itself lie in it."""
        from opentelemetry import context

        self._tool = self._tracer.start_span(
            f"execute_tool {name}",
            context=self._context(),
            attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name},
        )
        self._tool_token = context.attach(self._trace.set_span_in_context(self._tool))

    def tool_ended(self, *, is_error: bool) -> None:
        """End the span of the tool, if one began."""
        from opentelemetry import context

        if self._tool is None:
            return
        context.detach(self._tool_token)
        if is_error:
            self._tool.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
        self._tool.end()
        self._tool = None

    def close(self, error: BaseException | None) -> None:
        """End the run."""
        if self._run is None:
            return
        self.tool_ended(is_error=True)
        if error is not None:
            # The message may hold what nobody else is to read, so only the class is told.
            self._run.set_status(self._trace.Status(self._trace.StatusCode.ERROR, type(error).__name__))
        self._run.end()
        self._run = None

    def _context(self) -> Any:
        return self._trace.set_span_in_context(self._run)
