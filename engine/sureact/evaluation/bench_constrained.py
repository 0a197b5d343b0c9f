"""Speed of decoding tool calls under the schemas of their arguments."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sureact.constraints.json_schema import json_schema
from sureact.errors import ConstraintError
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sureact.config import ResolvedConfig
    from sureact.engine import Engine
    from sureact.evaluation.tool_calls import ToolCallTask
    from sureact.outputs import TokenUsage

MAX_CALL_LEN = 128
"""Most tokens per call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedCall:
    """One call and what it took."""

    text: str
    num_tokens: int
    """Tokens after the first, which belongs to the prompt's time."""
    decode_s: float
    """By the clock, from the first token on."""
    mask_s: float
    compile_s: float
    """To compile the schema, which is not in `decode_s`."""
    is_complete: bool
    """Whether the call ended within its budget; then it is valid."""
    usage: TokenUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstrainedMeasurement:
    """Calls, and the schemas that were refused."""

    config: ResolvedConfig
    calls: tuple[DecodedCall, ...]
    refused: tuple[str, ...]
    """Names of the tasks whose schemas cannot be compiled or whose calls came to a dead end, with the reason."""

    @property
    def num_tokens(self) -> int:
        """Tokens decoded, forced ones included."""
        return sum(call.num_tokens for call in self.calls)

    @property
    def decode_s(self) -> float:
        """Seconds of decoding."""
        return sum(call.decode_s for call in self.calls)

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second of decoding; 0 when nothing was decoded."""
        return self.num_tokens / self.decode_s if self.decode_s else 0.0

    @property
    def num_complete(self) -> int:
        """Calls that ended within their budget."""
        return sum(call.is_complete for call in self.calls)

    @property
    def compile_s(self) -> float:
        """Median seconds to compile a schema; 0 when none compiled."""
        return statistics.median(call.compile_s for call in self.calls) if self.calls else 0.0

    @property
    def mask_s(self) -> float:
        """Seconds of masks, which other work may hide."""
        return sum(call.mask_s for call in self.calls)

    @property
    def forced_tokens(self) -> int:
        """Tokens that the schemas left no choice about."""
        return sum(call.usage.forced_tokens for call in self.calls)

    @property
    def draft_acceptance(self) -> float | None:
        """Share of the drafted tokens that were right; None when none were drafted."""
        drafted = sum(call.usage.draft_tokens for call in self.calls)
        return sum(call.usage.accepted_draft_tokens for call in self.calls) / drafted if drafted else None


def measure_constrained(
    engine: Engine, tasks: Sequence[ToolCallTask], *, max_tokens: int = MAX_CALL_LEN
) -> ConstrainedMeasurement:
    """Decode a call per task, one after another, after one that warms the engine up.

    Raises:
        PromptTooLongError: the prompt of a task does not fit into the context.
        ConfigError: the model has no chat template.
    """
    calls: list[DecodedCall] = []
    refused: list[str] = []
    for index, task in enumerate([tasks[0], *tasks]):
        prompt = engine.encode(engine.render_chat(task.messages))
        try:
            call = decode_call(engine, prompt, task.schema_text, max_tokens)
        except ConstraintError as error:
            refused += [f"{task.name}: {error}"] if index else []
        else:
            calls += [call] if index else []
    return ConstrainedMeasurement(config=engine.config, calls=tuple(calls), refused=tuple(refused))


def decode_call(engine: Engine, prompt: list[int], schema_text: str, max_tokens: int) -> DecodedCall:
    """Decode one call after a prompt.

    Raises:
        ConstraintError: the schema cannot be compiled, or the text came to a dead end.
    """
    constraint = json_schema(schema_text)
    start = time.perf_counter()
    constraint.compile(engine.vocabulary)
    compiled = time.perf_counter()
    result = engine.generate(prompt, SamplingParams(max_tokens=max_tokens), constraint)
    seconds = time.perf_counter() - compiled
    output = result.completions[0]
    return DecodedCall(
        text=output.text,
        num_tokens=output.usage.completion_tokens - 1,
        decode_s=seconds - output.timings.prefill_s,
        mask_s=output.timings.mask_s,
        compile_s=compiled - start,
        is_complete=output.finish_reason == "stop",
        usage=output.usage,
    )
