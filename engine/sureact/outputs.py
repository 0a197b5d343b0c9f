"""What a generation returns. Plain data: no tensors, no references into the engine."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

FinishReason = Literal["stop", "length", "abort"]
"""`stop`: a stop, an end-of-sequence token or the end of the constraint; `length`: `max_tokens`; `abort`: cancelled."""


EarlyEndReason = Literal["repetition", "string_length", "number_length", "array_length", "max_tokens"]
"""Why a text or a value in it was ended: it repeated itself, was longer than `RunawayLimits` let it be, or the tokens
left were needed to end the whole (`SamplingParams.on_max_tokens`)."""


class EarlyEnd(NamedTuple):
    """Where a text, or a value in it, was ended although the model would have gone on."""

    reason: EarlyEndReason
    num_tokens: int
    """Generated tokens before the end began."""
    pointer: str | None
    """JSON pointer of the value that was ended; empty for the outermost, None where all of the text was ended."""


class TokenLogprob(NamedTuple):
    """A token and its natural-log probability."""

    token_id: int
    logprob: float


class StepLogprobs(NamedTuple):
    """Log-probabilities at one generated position, before the constraint's mask and the temperature."""

    picked: TokenLogprob
    top: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens that went in and came out."""

    prompt_tokens: int
    """Tokens of context before the first generated one."""
    cached_tokens: int
    """Of these, tokens whose keys and values were already in the cache."""
    completion_tokens: int
    """Tokens generated."""
    forced_tokens: int = 0
    """Of these, tokens that the constraint left no choice about, so that the model was not asked."""
    draft_tokens: int = 0
    """Tokens that were guessed and verified by the model beside others."""
    accepted_draft_tokens: int = 0
    """Of these, tokens that the model picked too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimings:
    """Where the time of one generation went, in seconds."""

    prefill_s: float = 0.0
    decode_s: float = 0.0
    mask_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """One generated text."""

    text: str
    """The text, without the stop unless `include_stop`, without end-of-sequence tokens."""
    token_ids: tuple[int, ...]
    """The ids that remain in the context after this generation, in order."""
    finish_reason: FinishReason
    stop_reason: str | tuple[int, ...] | int | None = None
    """The stop that matched (text or ids), the end-of-sequence id, or None (constraint complete, length, abort)."""
    usage: TokenUsage
    timings: StepTimings = field(default_factory=StepTimings)
    logprobs: tuple[StepLogprobs, ...] | None = None
    value: object = None
    """What a constrained text stands for (a parsed JSON value, an object of the type asked for), judged once more; None
    without a constraint, in a stream, and where the text is not complete."""
    forced_indices: tuple[int, ...] = ()
    """Positions in `token_ids` of the tokens that the constraint left no choice about."""
    early_ends: tuple[EarlyEnd, ...] = ()
    """What was ended because it ran on; empty unless `SamplingParams` ask for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDelta:
    """A piece of a text as it is decoded. The texts of all deltas concatenate to `StepOutput.text`."""

    text: str
    """New text; never part of a character, never text that a stop or a constraint could still take back."""
    token_ids: tuple[int, ...] = ()
    """Ids picked, and past being taken back, since the last delta; a stop may later cut the last of them."""
    logprobs: tuple[StepLogprobs, ...] = ()
    """One per id, if they were asked for."""
    output: StepOutput | None = None
    """The whole result, in the last delta only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutput:
    """What `Engine.generate` returns for one prompt."""

    prompt_token_ids: tuple[int, ...]
    completions: tuple[StepOutput, ...]
    """`SamplingParams.n` texts."""

    @property
    def text(self) -> str:
        """Text of the first completion."""
        return self.completions[0].text

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Token ids of the first completion."""
        return self.completions[0].token_ids

    @property
    def finish_reason(self) -> FinishReason:
        """Finish reason of the first completion."""
        return self.completions[0].finish_reason


def group_completions(prompts: Sequence[Sequence[int]], completions: Sequence[StepOutput]) -> list[RequestOutput]:
    """Return one output per prompt from the completions of all, as many of each, in order."""
    num_each = len(completions) // max(len(prompts), 1)
    return [
        RequestOutput(
            prompt_token_ids=tuple(token_ids), completions=tuple(completions[i * num_each : (i + 1) * num_each])
        )
        for i, token_ids in enumerate(prompts)
    ]
