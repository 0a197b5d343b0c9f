"""The ReAct loop: think, call a tool, observe, until `finish`; then the typed outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sureact.agent.agent_run import AgentRun
from sureact.agent.approval import Approve
from sureact.agent.call_rules import FINISH_AFTER_ERROR, AllowedTools, CallRules, OnRepeat
from sureact.agent.callback import Callback
from sureact.agent.default_model import default_model
from sureact.agent.events import AnswerReady, ContextTruncated, Event, OnEvent, RunStarted
from sureact.agent.extraction import OutputExtraction
from sureact.agent.formats.registry import default_format, format_named
from sureact.agent.module import Module, check_lm
from sureact.agent.module_scope import tool_cancellation
from sureact.agent.predict import ChainOfThought, Predict, require_names
from sureact.agent.prediction import Prediction
from sureact.agent.react_predictors import (
    PreparedPrompt,
    StepPredict,
    output_signature,
    prepared_prompt,
    step_signature,
)
from sureact.agent.redaction import Pattern, checked_patterns
from sureact.agent.resume import OnUnfinished, ResumePoint, resume_point
from sureact.agent.run_trace import RunTrace
from sureact.agent.signature import Signature
from sureact.agent.step_loop import StepLoop
from sureact.agent.telemetry import spans_maker
from sureact.agent.token_limits import TokenLimits, checked_limits
from sureact.agent.tool import FINISH, Tool, ToolLike, tools_by_name
from sureact.agent.tool_run import ToolRun, check_run_options
from sureact.agent.trajectory import Trajectory
from sureact.errors import ConfigError, ContextWindowExceededError
from sureact.option_values import require_bool, require_function, require_path, require_whole

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.agent.prompt_format import PromptFormat


class ReAct(Module):
    """An agent that thinks and calls tools until it can give the outputs of a signature.

    Decoding lets it call nothing but the given tools and `finish`, with arguments of their schemas. A tool that raises
    gives an observation that starts with `Execution error in <tool>: `. An object may be called from many threads.

    Its instructions and demos are those of its predictors `react`, for the steps, and `extract.predict`, for the
    outputs.
    """

    _shared: ClassVar[frozenset[str]] = frozenset(
        {"on_event", "approve", "trace", "redact", "limits", "_rules", "_new_spans", "_prepared"}
    )

    def __init__(
        self,
        signature: str | Signature | type[Signature],
        tools: Iterable[ToolLike],
        max_iters: int = 20,
        *,
        lm: LanguageModel | None = None,
        prompt_format: str | None = None,
        on_repeat: OnRepeat = "mask",
        require_tools: Iterable[str] = (),
        allowed_tools: AllowedTools | None = None,
        finish_after_error: bool = FINISH_AFTER_ERROR,
        limits: TokenLimits | None = None,
        on_event: OnEvent | None = None,
        trace: str | Path | None = None,
        approve: Approve | None = None,
        dry_run: bool = False,
        redact: Iterable[Pattern] = (),
        otel: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        """Prepare prompts and constraints.

        Args:
            signature: what goes in and what comes out.
            tools: functions, `Tool` objects, tools of dspy or LangChain, or classes whose methods are tools; may be
                none.
            max_iters: most steps, at least 1; then the outputs are given from what is known.
            lm: the model, such as an `Engine`; None for the default model, see `default_model`.
            prompt_format: `"fields"`, `"qwen_tool_call"`, `"qwen_react"`, or None for the model's default.
            on_repeat: what becomes of a call with the tool and arguments of an earlier one. `"mask"` takes it back, and
                the model decides on another tool, or on `finish`; tools whose every call was made, such as those
                without arguments, cannot be named at all. `"remind"` shows the earlier observation again and says so,
                as `"mask"` does where no other tool is left. `"run"` runs the tool, and so do all for tools with
                `repeatable`.
            require_tools: names of tools of each of which a call must have succeeded before `finish` can be called.
            allowed_tools: the tools of each step by name: a function of the step's index and the trajectory, or a
                mapping from the index, in which a step that is missing has all. `finish` is always among them.
            finish_after_error: whether `finish` can be called right after a step that failed. If not, another tool is
                called first, unless the step before failed as well, the user denied the call, or no other is left.
            limits: most tokens per part of a run, and of the whole run; its seconds.
            on_event: called with each event, on the thread that called the agent.
            trace: file that each run is appended to, part by part.
            approve: decides on each call before it runs, `finish` excepted; see `sureact.agent.approval`.
            dry_run: run no tool; the observations say so.
            redact: secrets that are not written into the trace: names of keys, and compiled expressions for any text.
            otel: tell each run as spans to the tracer that the program has set up for OpenTelemetry.
            callbacks: told of each call of the agent, its model and its tools.

        Raises:
            SignatureError: the signature cannot be read.
            ToolDefinitionError: a tool cannot be described, or its name is taken.
            UnsupportedSchemaError: the arguments of a tool, or an output, cannot be enforced.
            ConfigError: another option is not allowed, or the package of `otel` is missing.
            ModelNotFoundError: the default model is not on this disk; the message names the command that gets it.
        """
        super().__init__(callbacks)
        check_run_options(approve, dry_run)
        require_function("on_event", on_event)
        require_path("trace", trace)
        require_bool("otel", otel)
        self.redact = checked_patterns(redact)
        self._new_spans = spans_maker(otel)
        self.signature = Signature.of(signature)
        self.tools = tools_by_name(tools)
        self.tools[FINISH] = _finish_tool(self.signature)
        self.max_iters = require_whole("max_iters", max_iters)
        self._rules = CallRules(
            self.tools,
            on_repeat=on_repeat,
            require_tools=require_tools,
            allowed_tools=allowed_tools,
            finish_after_error=finish_after_error,
        )
        self.limits = checked_limits(limits)
        self.on_event = on_event
        self.trace = trace
        self.approve = approve
        self.dry_run = dry_run
        # Refuses now what would else be refused when the model is there.
        OutputExtraction(self.signature, with_reasoning=True)
        self._format_class = format_named(prompt_format) if prompt_format is not None else None
        self._prepared: PreparedPrompt | None = None
        # Last, because it may take seconds: whatever can be refused is refused before.
        lm = lm if lm is not None else default_model()
        self.react: Predict = StepPredict(step_signature(self.signature, self.tools), lm=lm)
        self.extract = ChainOfThought(output_signature(self.signature), lm=lm, max_tokens=self.limits.outputs)
        self._prepare()

    @property
    def on_repeat(self) -> OnRepeat:
        """What becomes of repeated calls."""
        return self._rules.on_repeat

    @property
    def rules(self) -> CallRules:
        """Which calls may be decided on."""
        return self._rules

    @property
    def lm(self) -> LanguageModel:
        """The model of both predictors.

        Raises:
            ConfigError: they have different ones, but a run has one session.
        """
        lm = self.react.lm
        if self.extract.lm is not lm:
            raise ConfigError(
                f"The predictors of this agent have two models, {lm.name} and {self.extract.lm.name}, but a run has "
                "one session; set both with agent.set_lm(...)."
            )
        return lm

    @lm.setter
    def lm(self, lm: LanguageModel) -> None:
        check_lm(lm)
        self.react.lm = self.extract.lm = lm

    @property
    def prompt_format(self) -> PromptFormat:
        """How runs are written down for the model, with the instructions and demos of the predictors."""
        return self._prepare().prompt_format

    @property
    def _extraction(self) -> OutputExtraction:
        return self._prepare().extraction

    def _prepare(self) -> PreparedPrompt:
        """Return what is built of the predictors; built again only where one of them has changed."""
        format_class = self._format_class or default_format(self.lm.name)
        predictors = (self.react, self.extract.predict)
        self._prepared = prepared = prepared_prompt(self.lm, format_class, self.tools, *predictors, self._prepared)
        return prepared

    def forward(self, *args: Any, max_iters: int | None = None, **inputs: Any) -> Prediction:
        """Run the agent.

        Args:
            args: none; inputs have names.
            max_iters: most steps of this run.
            inputs: the input fields of the signature.

        Returns:
            The outputs and `reasoning`, with `trajectory`, `termination_reason` and `usage`.

        Raises:
            SignatureError: an input is missing, unknown or of another type, or given by position.
            ConfigError: a demo does not fit its predictor.
            ContextWindowExceededError: the inputs, or the outputs after them, do not fit into the context.
            OutputTruncatedError: the outputs did not end within their budget.
            TraceError: the trace file cannot be written.
        """
        require_names(args, self.signature)
        return self._run(inputs, self.max_iters if max_iters is None else require_whole("max_iters", max_iters))

    def resume(
        self,
        path: str | Path,
        *,
        run_id: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        max_iters: int | None = None,
        on_unfinished: OnUnfinished | None = None,
        allow_changed_tools: bool = False,
    ) -> Prediction:
        """Go on with a run that was interrupted, from its trace file, to which the rest is appended.

        Finished steps are not run again: they go into a fresh session with the token ids of the first time. Tools with
        state begin with a new instance. A run that is finished gives its prediction once more.

        Args:
            path: the trace file.
            run_id: the run, or how its id begins; None for the only one, or the only one that is not finished.
            inputs: inputs in place of those of the trace, such as those that were redacted.
            max_iters: most steps in all; None for as many as the run was begun with.
            on_unfinished: says what becomes of a call that had started and may have taken effect: `"run"`, `"skip"`, or
                the text of its result. Tools with `idempotent` just run.
            allow_changed_tools: go on although tools are not those that the run was begun with.

        Raises:
            TraceError: the file cannot be read or written, or it is not clear which run is meant; or a call had started
                and there is no `on_unfinished`.
            ConfigError: the agent is not the one of the trace: another model, format, signature, or other tools.
            SureactError: see `__call__`.
        """
        most = None if max_iters is None else require_whole("max_iters", max_iters)
        point = resume_point(self, path, run_id, inputs, most, on_unfinished, allow_changed_tools=allow_changed_tools)
        if isinstance(point, Prediction):
            return point
        return self._call(partial(self._run, resumed=point), (point.inputs, point.max_iters), {})

    def convert_outputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Turn outputs as parsed JSON into the types of the signature.

        Raises:
            SignatureError: a validator of the user's own type refused a value.
        """
        return self._extraction.convert(dict(values))

    def _run(
        self,
        inputs: Mapping[str, Any],
        max_iters: int,
        resumed: ResumePoint | None = None,
    ) -> Prediction:
        values = self.signature.check_inputs(inputs)
        tool_run = ToolRun(self.tools, approve=self.approve, dry_run=self.dry_run, cancellation=tool_cancellation())
        path = resumed.path if resumed else self.trace
        with RunTrace(path, redact=self.redact, spans=self._new_spans(), resumed=resumed) as trace, tool_run:
            tell = partial(self._tell, trace)
            trace.begin(self, values, max_iters)
            run = AgentRun(self.lm, self.prompt_format, values, self.limits, tell)
            try:
                if resumed:
                    run.restore(resumed)
                trace.attach(run)
                tell(RunStarted(values, tuple(self.tools), max_iters))
                loop = StepLoop(run, self._rules, tool_run, trace, tell, resumed)
                reason = loop.take_steps(max_iters, self.truncate_trajectory)
                outputs = run.extract(self._extraction, self.truncate_trajectory)
            finally:
                run.close()
            trace.outputs(outputs, reason)
            tell(AnswerReady(outputs, reason))
        return Prediction(outputs, usage=run.usage, trajectory=run.trajectory, termination_reason=reason)

    def truncate_trajectory(self, trajectory: Trajectory) -> Trajectory:
        """Drop the oldest step, because the context is full, even with the longest old observations cut.

        Override to drop or shorten something else.

        Returns:
            The trajectory to go on with.

        Raises:
            ContextWindowExceededError: there is one step only; dropping it would lose all that is known.
        """
        if len(trajectory.steps) <= 1:
            raise ContextWindowExceededError(
                f"The context is full and the trajectory has {len(trajectory.steps)} step(s), so none can be dropped. "
                "Shorten the inputs, lower TokenLimits, or take a model with a longer context."
            )
        trajectory.drop_oldest()
        return trajectory

    def _tell(self, trace: RunTrace, event: Event) -> None:
        if isinstance(event, ContextTruncated):
            trace.truncated(event.dropped_steps, event.trimmed_steps)
        if self.on_event:
            self.on_event(event)


def _finish_tool(signature: Signature) -> Tool:
    names = ", ".join(f"`{name}`" for name in signature.outputs)

    def finish() -> str:
        return "Completed."

    return Tool(finish, name=FINISH, desc=f"Ends the work, once all that is needed to give {names} is known.")
