"""The ReAct loop in history mode: several calls a turn, outputs by a call of `submit`, conversations that go on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from typing_extensions import TypedDict, override

from sureact.agent.approval import Approve
from sureact.agent.call_rules import CallRules, OnRepeat
from sureact.agent.callback import Callback
from sureact.agent.default_model import default_model
from sureact.agent.demos import demo_json
from sureact.agent.events import AnswerReady, Event, OnEvent, RunStarted
from sureact.agent.extraction import OutputExtraction
from sureact.agent.formats.qwen_tool_turns import SUBMIT, QwenToolTurnsFormat
from sureact.agent.history import History, HistoryPrediction, checked_history, json_values
from sureact.agent.json_object import JsonObject, ObjectField
from sureact.agent.module import Module, check_lm
from sureact.agent.module_scope import tool_cancellation
from sureact.agent.predict import Predict, require_names
from sureact.agent.prompt_template import input_texts, render_template
from sureact.agent.react_predictors import StepPredict
from sureact.agent.redaction import Pattern, checked_patterns
from sureact.agent.run_trace import RunTrace
from sureact.agent.signature import Signature, signature_of_fields
from sureact.agent.telemetry import spans_maker
from sureact.agent.token_limits import TokenLimits, checked_limits
from sureact.agent.tool import Tool, ToolLike, tools_by_name
from sureact.agent.tool_run import MAX_PARALLEL_CALLS, ToolRun, check_run_options
from sureact.agent.tool_turns import ToolTurns
from sureact.agent.trace_header import fingerprint_of
from sureact.agent.turn_session import TurnSession
from sureact.errors import SignatureError, ToolDefinitionError
from sureact.option_values import require_function, require_path, require_whole

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel

RESERVED_INPUTS = frozenset({"history", "tools"})
RESERVED_OUTPUTS = frozenset({"history", "forced_by"})


class DemoCall(TypedDict):
    """A call in a demo of the predictor `react`."""

    name: str
    args: dict[str, Any]


class _Prepared(NamedTuple):
    """What is built of the predictor, and of what it was built."""

    sources: tuple[object, ...]
    turns_format: QwenToolTurnsFormat


class ReActV2(Module):
    """An agent that makes several calls a turn and gives the outputs of a signature by calling `submit` with them.

    Named as in dspy, so that its users find it. Decoding lets it call nothing but the given tools and `submit`, with
    arguments of their schemas; the calls of a turn run side by side. A call of `submit` stands alone in its turn, and
    is forced where the model comes to no end, so outputs are always there. The prediction has `history`, with which the
    conversation goes on. An object may be called from many threads.

    Its instructions and demos are those of its predictor `react`; a demo has inputs, `next_thought` and `tool_calls`, a
    list of `{"name": ..., "args": {...}}`.
    """

    _shared: ClassVar[frozenset[str]] = frozenset(
        {"on_event", "approve", "trace", "redact", "limits", "rules", "_new_spans", "_prepared"}
    )

    def __init__(
        self,
        signature: str | Signature | type[Signature],
        tools: Iterable[ToolLike],
        max_iters: int = 20,
        *,
        lm: LanguageModel | None = None,
        max_calls: int = 8,
        on_repeat: OnRepeat = "mask",
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
            tools: as in `ReAct`; may be none.
            max_iters: most turns of a run, at least 1; then `submit` is forced.
            lm: the model, such as an `Engine`; None for the default model, see `default_model`.
            max_calls: most calls of a turn, 1 to 16.
            on_repeat: what a call with the tool and arguments of an earlier one of the run does: `"mask"` takes it back
                and lets the model call another tool, or end the turn; `"remind"` shows the earlier observation again
                and says so, `"run"` runs the tool. Tools with `repeatable` always run.
            limits: most tokens per part of a run, and limits of the whole; nothing is cut out of a conversation, so
                `kept_observation` has no effect.
            on_event: called with each event, on the thread that called the agent.
            trace: file that each run is appended to, part by part, a step per call. It can be shown, not resumed or
                replayed; going on is what `history` is for.
            approve: decides on each call before it runs, `submit` excepted; see `sureact.agent.approval`.
            dry_run: run no tool; the observations say so.
            redact: secrets that are not written into the trace. A history holds them.
            otel: as in `ReAct`.
            callbacks: told of each call of the agent, its model and its tools.

        Raises:
            SignatureError: the signature cannot be read, or a field has a reserved name.
            ToolDefinitionError: a tool cannot be described, or its name is taken.
            UnsupportedSchemaError: the arguments of a tool, or an output, cannot be enforced.
            ConfigError: another option is not allowed, or the model's chat template knows no tool messages; or the
                package of `otel` is missing.
            ModelNotFoundError: the default model is not on this disk; the message names the command that gets it.
        """
        super().__init__(callbacks)
        check_run_options(approve, dry_run)
        require_function("on_event", on_event)
        require_path("trace", trace)
        self.redact = checked_patterns(redact)
        self._new_spans = spans_maker(otel)
        self.signature = _checked_signature(signature)
        self._extraction = OutputExtraction(self.signature, with_reasoning=False)
        self.tools = tools_by_name(tools)
        if SUBMIT in self.tools:
            raise ToolDefinitionError(f"A tool is called {SUBMIT!r}, which gives the outputs; give yours another name.")
        self.tools[SUBMIT] = _submit_tool(self.signature)
        self.max_iters = require_whole("max_iters", max_iters)
        self.max_calls = require_whole("max_calls", max_calls, most=MAX_PARALLEL_CALLS)
        self.rules = CallRules(self.tools, on_repeat=on_repeat)
        self.limits = checked_limits(limits)
        self.on_event = on_event
        self.trace = trace
        self.approve = approve
        self.dry_run = dry_run
        self._prepared: _Prepared | None = None
        # Last, because it may take seconds: whatever can be refused is refused before.
        lm = lm if lm is not None else default_model()
        self.react: Predict = StepPredict(_turn_signature(self.signature), lm=lm)
        self._prepare()

    @property
    def lm(self) -> LanguageModel:
        """The model."""
        return self.react.lm

    @lm.setter
    def lm(self, lm: LanguageModel) -> None:
        check_lm(lm)
        self.react.lm = lm

    @property
    def on_repeat(self) -> OnRepeat:
        """What a call does that was made before."""
        return self.rules.on_repeat

    @property
    def prompt_format(self) -> QwenToolTurnsFormat:
        """How conversations are written down for the model, with the instructions and demos of the predictor."""
        return self._prepare()

    @override
    def forward(
        self,
        *args: Any,
        history: History | Mapping[str, Any] | None = None,
        max_iters: int | None = None,
        **inputs: Any,
    ) -> HistoryPrediction:
        """Run the agent on a message of the user.

        Args:
            args: none; inputs have names.
            history: the conversation to go on with, as `prediction.history` or what its `to_dict()` gave; it is not
                changed. Its token ids go into the context as they are where model, instructions and tools are those
                that it was had with; else its turns are written anew, and the log says so.
            max_iters: most turns of this run.
            inputs: the input fields of the signature.

        Returns:
            The outputs, with `history`, `termination_reason`, `forced_by`, `usage`; `trajectory` has a step per call.

        Raises:
            SignatureError: an input is missing, unknown or of another type, or given by position; or a validator of the
                user's own type refused forced outputs.
            ConfigError: a demo does not fit its predictor, or `history` is none.
            ContextWindowExceededError: the conversation leaves no room for a turn and the outputs.
            OutputTruncatedError: forced outputs did not end within their budget.
            ConstraintError: forced outputs break a rule that no grammar can hold.
            TraceError: the trace file cannot be written.
        """
        require_names(args, self.signature)
        so_far = checked_history(history)
        most = self.max_iters if max_iters is None else require_whole("max_iters", max_iters)
        values = self.signature.check_inputs(inputs)
        turns_format = self._prepare()
        origin = self._origin(turns_format)
        tools = {name: tool for name, tool in self.tools.items() if name != SUBMIT}
        tool_run = ToolRun(tools, approve=self.approve, dry_run=self.dry_run, cancellation=tool_cancellation())
        with RunTrace(self.trace, redact=self.redact, spans=self._new_spans()) as trace, tool_run:
            trace.begin(cast("Any", self), values, most)
            session = TurnSession(self.lm, turns_format, so_far, values, self.limits, self._tell, origin=origin)
            try:
                trace.attach(cast("Any", session))
                self._tell(RunStarted(values, tuple(self.tools), most))
                loop = ToolTurns(self, session, tool_run, trace, self._tell, len(so_far))
                ending = loop.run(json_values(values), most)
                token_ids = tuple(session.token_ids)
            finally:
                session.close()
            later = History(turns=(*so_far.turns, *loop.turns), token_ids=token_ids, origin=origin)
            usage, trajectory = session.usage, session.trajectory
            prediction = HistoryPrediction(ending.outputs, later, ending.forced_by, usage, trajectory)
            trace.outputs(ending.outputs, prediction.termination_reason)
            self._tell(AnswerReady(ending.outputs, prediction.termination_reason))
        return prediction

    def convert_outputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Turn outputs as parsed JSON into the types of the signature.

        Raises:
            SignatureError: a validator of the user's own type refused a value.
        """
        return self._extraction.convert(dict(values))

    def _prepare(self) -> QwenToolTurnsFormat:
        """Return what is built of the predictor; built again only where that has changed."""
        react, before = self.react, self._prepared
        sources = (react.lm, react.signature, react.judged_demos())
        if before is not None and all(old is new for old, new in zip(before.sources, sources, strict=True)):
            return before.turns_format
        instructions = render_template(
            "agent_instructions",
            instructions=react.signature.instructions,
            output_instructions="",
            outputs=[],
            steps=[_demo_text(demo.inputs, demo.outputs) for demo in react.judged_demos()],
        )
        signature = react.signature.with_instructions(instructions)
        self._prepared = _Prepared(sources, QwenToolTurnsFormat(react.lm, signature, self.tools))
        return self._prepared.turns_format

    def _origin(self, turns_format: QwenToolTurnsFormat) -> str:
        """Return a digest of all that token ids of a conversation depend on."""
        parts = [self.lm.name, fingerprint_of(self.lm), turns_format.digest]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _tell(self, event: Event) -> None:
        if self.on_event:
            self.on_event(event)


def _checked_signature(given: str | Signature | type[Signature]) -> Signature:
    signature = Signature.of(given)
    for kind, names, reserved in (
        ("input", signature.inputs, RESERVED_INPUTS),
        ("output", signature.outputs, RESERVED_OUTPUTS),
    ):
        clash = [name for name in names if name in reserved]
        if clash:
            raise SignatureError(
                f"{', '.join(clash)} cannot name an {kind} of ReActV2: reserved are {', '.join(sorted(reserved))}."
            )
    return signature


def _turn_signature(signature: Signature) -> Signature:
    """Return the signature of a turn, by which demos are judged."""
    outputs = {"next_thought": ObjectField(str), "tool_calls": ObjectField(list[DemoCall])}
    return signature_of_fields(signature.inputs, outputs, signature.instructions)


def _submit_tool(signature: Signature) -> Tool:
    def submit(**outputs: object) -> dict[str, object]:
        return outputs

    schema = JsonObject("Outputs", signature.outputs).schema
    names = ", ".join(f"`{name}`" for name in signature.outputs)
    desc = f"Ends the work by giving {names}, once all that is needed is known."
    return Tool(submit, name=SUBMIT, desc=desc, args=schema)


def _demo_text(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> str:
    shown = render_template("inputs", inputs=input_texts(inputs))
    calls = [demo_json({"name": call["name"], "arguments": call["args"]}) for call in outputs.get("tool_calls", ())]
    return "\n".join([shown, outputs.get("next_thought", ""), *calls])
