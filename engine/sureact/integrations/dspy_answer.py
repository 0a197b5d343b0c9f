"""How an answer to dspy comes about: text, calls, and what was measured, step by step.

`Dialogue.run` asks for its steps and does not know who takes them, so that one dialogue serves threads and event loops,
whole answers and streams.
"""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from dspy import lm15

from sureact.errors import OutputTruncatedError, RequestAbortedError
from sureact.integrations.dspy_prompt import OPEN_TAG
from sureact.integrations.dspy_request import COMPLETED, call_params
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.constraints.call_grammar import ToolCallConstraint
    from sureact.constraints.constraint import Constraint
    from sureact.integrations.dspy_request import Ask
    from sureact.outputs import StepLogprobs, StepOutput
    from sureact.tokens.vocabulary import Vocabulary

_LEAST_FOR_CALL = 8
"""No call is shorter, so with fewer tokens left nobody looks for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """Go on with the context; the reply is a `StepOutput`."""

    params: SamplingParams
    constraint: Constraint | None = None
    is_shown: bool = False
    """Whether its text belongs to the answer, so that a stream shows it."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Keep so many tokens of the context."""

    num_tokens: int


@dataclass(frozen=True, slots=True)
class Score:
    """Measure texts that may follow the prompt; the reply is the log-probability of each."""

    num_prompt_tokens: int
    texts: Sequence[str]


Delta: TypeAlias = lm15.TextDelta | lm15.ToolCallDelta
Step: TypeAlias = Generate | Truncate | Score | Delta
"""What a dialogue asks for, or shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer."""

    parts: tuple[lm15.TextPart | lm15.DataPart | lm15.ToolCallPart, ...]
    finish_reason: lm15.FinishReason
    usage: lm15.Usage
    logprobs: tuple[lm15.TokenLogprob, ...] | None


class Dialogue:
    """One request's way to its answer.

    Args:
        ask: the request.
        call: the grammar of one call; None where there are none.
        num_prompt_tokens: tokens of the prompt, which the context holds.
        vocabulary: of the model.
        tag_ids: the token ids that open a call.
    """

    def __init__(
        self,
        ask: Ask,
        call: ToolCallConstraint | None,
        num_prompt_tokens: int,
        vocabulary: Vocabulary,
        tag_ids: tuple[int, ...],
    ) -> None:
        self._ask = ask
        self._call = call
        self._vocabulary = vocabulary
        self._tag_ids = tag_ids
        self._num_prompt_tokens = self._num_tokens = num_prompt_tokens
        self._left = ask.params.max_tokens
        self._num_cached: int | None = None
        self._text = ""
        self._calls: list[lm15.ToolCallPart] = []
        self._is_cut = False
        self._logprobs: tuple[lm15.TokenLogprob, ...] | None = None

    def run(self) -> Generator[Step, Any, Answer]:
        """Ask for the steps.

        Raises:
            OutputTruncatedError: `max_tokens` ended a constrained text or the first call inside it.
            ConstraintError: a text is JSON that stands for no value.
        """
        wish = self._ask.calls
        if wish is None:
            yield from self._write_text()
        elif wish.is_required:
            if self._ask.constraint is not None:
                yield from self._write_text()
            yield from self._write_calls()
        elif self._ask.constraint is not None:
            yield from self._write_either()
        elif (yield from self._write_text()):
            yield from self._write_calls()
        part = yield from self._measured()
        return self._answer(part)

    def _write_text(self) -> Generator[Step, Any, bool]:
        """Write the text; return whether the model then opened a call."""
        ask = self._ask
        own_stops = ([OPEN_TAG] if ask.calls else []) + ([COMPLETED] if ask.ends_at_completed else [])
        stops = [*ask.params.stop_texts, *(own_stops if ask.constraint is None else [])]
        output = yield from self._generate(replace(ask.params, stop=stops), ask.constraint, is_shown=True)
        self._text = output.text
        self._is_cut = output.finish_reason == "length"
        if self._is_cut and ask.constraint is not None:
            raise _truncated(output)
        if ask.constraint is not None:
            ask.constraint.parse(output.text)
        if output.logprobs is not None:
            self._logprobs = tuple(_token_logprob(step, self._vocabulary) for step in output.logprobs)
            yield lm15.TextDelta("", logprobs=self._logprobs)
        if output.stop_reason == COMPLETED and ask.ends_at_completed:
            # The reader of a stream waits for the marker too.
            self._text += COMPLETED
            yield lm15.TextDelta(COMPLETED)
        return self._is_at_call(output)

    def _write_either(self) -> Generator[Step, Any, None]:
        """Write what the model begins with: a call, or the text, and then maybe a call."""
        if not (yield from self._looks_for_call(1)):
            yield from self._write_text()
            if not (yield from self._looks_for_call(2)):
                return
        yield from self._write_calls()

    def _write_calls(self) -> Generator[Step, Any, None]:
        assert self._ask.calls is not None, "calls are written where calls are wished for"
        assert self._call is not None, "who wishes for calls brings their grammar"
        seen: set[str] = set()
        while True:
            output = yield from self._generate(call_params(self._ask.params, max(self._left, 1)), self._call)
            if output.finish_reason == "length":
                if not self._calls:
                    raise _truncated(output)
                return
            name, args = self._call.parse(output.text)
            key = json.dumps([name, args], sort_keys=True)
            if key in seen:  # a model that repeats itself would go on to the end of its budget
                return
            seen.add(key)
            yield self._add_call(name, args)
            if not self._ask.calls.is_parallel or not (yield from self._looks_for_call(2)):
                return

    def _add_call(self, name: str, args: dict[str, Any]) -> lm15.ToolCallDelta:
        assert self._ask.calls is not None, "calls are added where calls are wished for"
        call_id = f"call_{self._ask.calls.num_before + len(self._calls)}"
        index = len(self._calls) + 1
        self._calls.append(lm15.ToolCallPart(call_id, name, args))
        return lm15.ToolCallDelta(json.dumps(args, ensure_ascii=False), part_index=index, id=call_id, name=name)

    def _looks_for_call(self, num_tokens: int) -> Generator[Step, Any, bool]:
        """Ask whether the model goes on with a call within so many tokens; if not, the context is as before."""
        if self._left < _LEAST_FOR_CALL:
            return False
        before = self._num_tokens
        params = replace(call_params(self._ask.params, num_tokens), stop=OPEN_TAG)
        output = yield from self._generate(params, None)
        if self._is_at_call(output):
            return True
        self._num_tokens = before
        yield Truncate(before)
        return False

    def _generate(
        self, params: SamplingParams, constraint: Constraint | None, *, is_shown: bool = False
    ) -> Generator[Step, Any, StepOutput]:
        output: StepOutput = yield Generate(params=params, constraint=constraint, is_shown=is_shown)
        if output.finish_reason == "abort":
            raise RequestAbortedError("The request was cancelled before its answer was complete.")
        if self._num_cached is None:
            self._num_cached = output.usage.cached_tokens
        self._num_tokens += len(output.token_ids)
        self._left -= output.usage.completion_tokens
        return output

    def _is_at_call(self, output: StepOutput) -> bool:
        """Whether a text ended where a call opens: at the tag, as text or as the control token of that name."""
        return self._ask.calls is not None and output.stop_reason in (OPEN_TAG, self._tag_ids)

    def _measured(self) -> Generator[Step, Any, lm15.TextPart | lm15.DataPart]:
        """Return the text; as data where its schema declares answers, with their probabilities if that is asked for."""
        text, schema = lm15.TextPart(self._text), self._ask.schema
        if schema is None or not self._text:
            return text
        found = candidates_in(self._text, schema)
        if not found:
            return text
        value = json.loads(self._text)
        if self._ask.probabilities is None:
            return lm15.DataPart(value)
        texts = [candidate for candidates in found.values() for candidate in candidates.values()]
        scores: Iterator[float] = iter((yield Score(self._num_prompt_tokens, texts)))
        probabilities = {
            name: _normalized({key: next(scores) for key in candidates}) for name, candidates in found.items()
        }
        return lm15.DataPart(value, probabilities=probabilities, method="candidate_sequence_likelihood")

    def _answer(self, text: lm15.TextPart | lm15.DataPart) -> Answer:
        is_empty = isinstance(text, lm15.TextPart) and not text.text
        num_generated = self._ask.params.max_tokens - self._left
        finish: lm15.FinishReason = "tool_call" if self._calls else "length" if self._is_cut else "stop"
        return Answer(
            parts=(*(() if is_empty and self._calls else (text,)), *self._calls),
            finish_reason=finish,
            usage=lm15.Usage(
                input_tokens=self._num_prompt_tokens,
                output_tokens=num_generated,
                cache_read_tokens=self._num_cached or 0,
            ),
            logprobs=self._logprobs,
        )


def candidates_in(text: str, schema: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return, for each property of a JSON object that declares its answers, the object's beginning with each of them.

    A beginning goes one character beyond the answer, so that one answer can be the start of another.
    """
    properties: Mapping[str, Any] = schema.get("properties") or {}
    if not text.startswith("{"):
        return {}
    found: dict[str, dict[str, str]] = {}
    decoder, position = json.JSONDecoder(), 1
    while text[position] != "}":
        name, position = decoder.raw_decode(text, text.index('"', position))
        start = position + 2  # behind the colon and its blank
        _, position = decoder.raw_decode(text, start)
        answers = _declared_answers(properties.get(name))
        if answers:
            found[name] = {key: text[:start] + spelled + text[position] for key, spelled in answers.items()}
    return found


def _declared_answers(schema: Any) -> dict[str, str]:
    """Return key and JSON of each answer that a property declares: a boolean, texts, or the levels 0, 1, 2, ..."""
    if not isinstance(schema, Mapping):
        return {}
    branches = schema.get("anyOf") or ()
    if schema.get("type") == "boolean":
        return {"true": "true", "false": "false"}
    if branches and all(isinstance(branch, Mapping) and "const" in branch for branch in branches):
        values = [branch["const"] for branch in branches]
    else:
        values = list(schema.get("enum") or ())
    if all(isinstance(value, str) and value for value in values) and len(set(values)) == len(values):
        return {value: json.dumps(value, ensure_ascii=False) for value in values}
    is_levels = all(type(value) is int for value in values) and values == list(range(len(values)))
    return {str(value): str(value) for value in values} if is_levels else {}


def _normalized(scores: Mapping[str, float]) -> dict[str, float]:
    top = max(scores.values())
    weights = {key: math.exp(score - top) for key, score in scores.items()}
    total = sum(weights.values())
    return {key: weight / total for key, weight in weights.items()}


def _truncated(output: StepOutput) -> OutputTruncatedError:
    return OutputTruncatedError(
        f"max_tokens ended the answer after {len(output.token_ids):,} tokens, before it was complete. Raise it. "
        f"What came: {output.text!r}."
    )


def _token_logprob(step: StepLogprobs, vocabulary: Vocabulary) -> lm15.TokenLogprob:
    def told(token_id: int) -> tuple[str, tuple[int, ...]]:
        spelled = vocabulary.token_bytes[token_id]
        return spelled.decode(errors="replace"), tuple(spelled)

    top: list[lm15.TopLogprob] = []
    for token_id, logprob in step.top:
        text, spelled = told(token_id)
        top.append(lm15.TopLogprob(text, logprob, spelled, token_id))
    text, spelled = told(step.picked.token_id)
    return lm15.TokenLogprob(text, step.picked.logprob, spelled, step.picked.token_id, tuple(top))
