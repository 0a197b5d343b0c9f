"""The records of a trace file: one JSON object a line, each of one of these types. `docs/trace.md` explains them."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

TRACE_VERSION = 3


class RecordStart(TypedDict):
    """What every record begins with."""

    time_s: float
    """Seconds since the epoch when it was written."""
    run_id: str
    """Its run, since several may share a file."""


class ToolRecord(TypedDict):
    """A tool as the model saw it."""

    name: str
    description: str
    parameters: dict[str, Any]
    title: NotRequired[str]
    """Name for people; not in early files."""
    digest: NotRequired[str]
    """SHA-256 over name, description and parameters; not in version 1."""


class UsageRecord(TypedDict):
    """Tokens of one generation, as in `TokenUsage`."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    forced_tokens: int
    draft_tokens: int
    accepted_draft_tokens: int


class TimingsRecord(TypedDict):
    """Seconds of one generation, as in `StepTimings`."""

    prefill_s: float
    decode_s: float
    mask_s: float


class GenerationRecord(TypedDict):
    """One text that the model generated."""

    text: str
    token_ids: list[int] | None
    """None where something in the record was redacted."""
    tokens: list[str] | None
    """The text of each token; a character that several tokens spell stands at the last one."""
    forced: list[int] | None
    """Positions of the tokens that the constraint left no choice about."""
    constraint: str | None
    """SHA-256 of what the masks were made of; None for free text."""
    sampling: dict[str, Any]
    """The `SamplingParams` that are not the defaults, and `max_tokens`."""
    finish_reason: str
    stop_reason: str | list[int] | int | None
    usage: UsageRecord
    timings: TimingsRecord
    early_ends: NotRequired[list[dict[str, Any]]]
    """Where it, or a value in it, was ended because it ran on, as in `EarlyEnd`; absent where nothing was."""


class HeaderRecord(RecordStart):
    """What a run starts from."""

    type: Literal["header"]
    version: int
    sureact_version: str
    model: str
    model_fingerprint: NotRequired[str | None]
    """Changes with the weights or the tokenizer; None where the model does not tell."""
    context_len: NotRequired[int]
    prompt_format: str
    signature: NotRequired[dict[str, Any]]
    """`instructions`, and by name: types as the model reads them (`input_types`, `output_types`), as a signature text
    names them, or None (`input_annotations`, `output_annotations`), and `descriptions`; the last three not in early
    files."""
    predictors: NotRequired[dict[str, dict[str, Any]]]
    """`instructions` and `descriptions` of the predictors `react` and `extract`; not in early files."""
    inputs: dict[str, Any]
    tools: list[ToolRecord]
    limits: NotRequired[dict[str, Any]]
    """As in `TokenLimits`."""
    max_iters: NotRequired[int]
    on_repeat: NotRequired[str]
    require_tools: NotRequired[list[str]]
    """From version 3 on."""
    finish_after_error: NotRequired[bool]
    """True where it is missing."""
    demos: NotRequired[dict[str, list[dict[str, Any]]]]
    """Demos of the predictors `react` and `extract.predict`; from version 3 on."""
    demos_digest: NotRequired[str]
    """SHA-256 over them."""
    is_redacted: NotRequired[bool]
    """Whether secrets are taken out of the records; not in early files."""


class PromptRecord(RecordStart):
    """The opening prompt."""

    type: Literal["prompt"]
    text: str
    context_ids: list[int] | None
    """Token ids that the part added to the context."""


class ThoughtRecord(RecordStart):
    """A thought."""

    type: Literal["thought"]
    step: int
    text: str
    thinking: NotRequired[str]
    """What a thinking model wrote between `<think>` and `</think>`."""
    context_ids: NotRequired[list[int] | None]
    earlier_generations: NotRequired[list[GenerationRecord]]
    """What a thinking model wrote before, in a generation of its own."""
    generation: NotRequired[GenerationRecord]


class CallRecord(RecordStart):
    """A call as it was decided, or where its tokens ran out."""

    type: Literal["call"]
    step: int
    tool_name: str | None
    """None when the call did not end within its tokens; the step then leaves the context."""
    tool_args: dict[str, Any] | None
    refusal: str | None
    """Why the call cannot run, although the grammar let it through."""
    names: NotRequired[list[str]]
    """The tools that could be named; from version 3 on."""
    context_ids: list[int] | None
    earlier_generations: NotRequired[list[GenerationRecord]]
    """Calls that were taken back, because they repeat earlier ones."""
    generation: GenerationRecord


class ApprovalRecord(RecordStart):
    """What was decided on a call; only where somebody is asked. From version 3 on."""

    type: Literal["approval"]
    step: int
    tool_name: str
    decision: Literal["allow", "deny", "edit"]
    reason: str | None
    """Of a denial."""
    tool_args: dict[str, Any]
    """Arguments that the tool is to run with."""


class CallStartedRecord(RecordStart):
    """A tool is about to run: nobody was asked, or the call was approved."""

    type: Literal["call_started"]
    step: int
    tool_name: str
    tool_args: dict[str, Any]
    """Arguments that the tool runs with: those of the call, or what the user changed them to."""


class ObservationRecord(RecordStart):
    """A finished step."""

    type: Literal["observation"]
    step: int
    finished: dict[str, Any]
    """The whole `Step`."""
    context_ids: NotRequired[list[int] | None]


class TruncatedRecord(RecordStart):
    """The context was full and was written anew."""

    type: Literal["truncated"]
    dropped_steps: list[int]
    trimmed_steps: NotRequired[list[int]]
    """Steps whose observations were cut; from version 3 on."""
    steps: NotRequired[list[dict[str, Any]]]
    """The steps that are left."""
    context_ids: NotRequired[list[int] | None]
    """The whole context."""


class ResumedRecord(RecordStart):
    """The run goes on after it was interrupted."""

    type: Literal["resumed"]
    version: int
    sureact_version: str
    step: int
    """The step it goes on with."""
    unfinished: str | None
    """What was done about a call that had started: `run`, or the observation in its place; None if there was none."""
    changed_tools: list[str]


class OutputsRecord(RecordStart):
    """The end of a run."""

    type: Literal["outputs"]
    outputs: dict[str, Any]
    termination_reason: str
    usage: dict[str, Any]
    context_ids: NotRequired[list[int] | None]
    generation: NotRequired[GenerationRecord]


class AbortedRecord(RecordStart):
    """The run ended by an error."""

    type: Literal["aborted"]
    error: str
    message: str


Record = (
    HeaderRecord
    | PromptRecord
    | ThoughtRecord
    | CallRecord
    | ApprovalRecord
    | CallStartedRecord
    | ObservationRecord
    | TruncatedRecord
    | ResumedRecord
    | OutputsRecord
    | AbortedRecord
)
