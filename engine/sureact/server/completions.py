"""`/v1/completions`: texts that go on after raw prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sureact.server.answer_constraint import RESPONSE_FORMAT_FIELD, STRUCTURED_FIELDS, only_one
from sureact.server.api_error import ApiError, api_error_of
from sureact.server.chat_answer import AnswerHead, logprob_entry, usage_object
from sureact.server.chat_completions import run_all
from sureact.server.chat_turn import told_stop_reason
from sureact.server.event_stream import EventStream
from sureact.server.field_values import boolean, integer, one_of, read_list, read_text, read_token_ids, refuse
from sureact.server.guard_fields import are_guards_on, early_end_object
from sureact.server.off_loop import on_thread
from sureact.server.request_fields import MISSING, Field, honored, neutral, refused
from sureact.server.request_record import new_generation
from sureact.server.sampling_fields import (
    CACHE_SALT_FIELD,
    CHOICE_FIELDS,
    CLIENT_FIELDS,
    MODEL_FIELD,
    SAMPLING_FIELDS,
    STREAM_FIELDS,
    StreamOptions,
    sampling_params,
)
from sureact.server.text_shaping import ShownLogprobs
from sureact.server.turn_events import TurnUsage
from sureact.server.turn_plan import compiled, max_tokens, refuse_with_constraint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sureact.constraints.constraint import Constraint
    from sureact.outputs import StepLogprobs, StepOutput
    from sureact.sampling_params import SamplingParams
    from sureact.server.endpoint import Exchange
    from sureact.server.serving import Serving
    from sureact.tokens.vocabulary import Vocabulary

MAX_PROMPTS = 256


def _prompts(value: Any, path: str) -> list[str | list[int]]:
    """Read one prompt, or a list of them: texts, or lists of token ids."""
    if isinstance(value, str):
        return [value]
    items = read_list(value, path)
    if items and all(type(item) is int for item in items):
        return [read_token_ids(items, path)]
    if not 1 <= len(items) <= MAX_PROMPTS:
        refuse(f"{len(items)} prompts", path, f"1 to {MAX_PROMPTS} prompts")
    return [_PROMPT(item, f"{path}[{index}]") for index, item in enumerate(items)]


_PROMPT = one_of((str, read_text), (list, read_token_ids), allowed="a text or a list of token ids")

COMPLETION_FIELDS: Sequence[Field] = (
    MODEL_FIELD,
    honored("prompt", "a text, a list of token ids, or a list of these", _prompts, MISSING),
    *SAMPLING_FIELDS,
    *CHOICE_FIELDS,
    integer("max_tokens", 16, least=1),
    integer("logprobs", None, least=0, most=20, default_text="none", note="Before the constraint's mask."),
    *STREAM_FIELDS,
    boolean("echo", False, note="Not with `logprobs`: those of the prompt are not computed."),
    boolean("parse_control_tokens", False, note="Whether `<|im_end|>` and the like in a prompt are control tokens."),
    RESPONSE_FORMAT_FIELD,
    *STRUCTURED_FIELDS,
    CACHE_SALT_FIELD,
    *CLIENT_FIELDS,
    neutral("add_special_tokens", False, True, note="No model here has tokens that are added."),
    refused("max_completion_tokens", "Use `max_tokens`."),
    refused("messages", "Use `prompt`, or ask `/v1/chat/completions`."),
    refused("suffix", "Text is continued, not filled in."),
    refused("prompt_embeds", "Give text or token ids."),
)


@dataclass(frozen=True, slots=True)
class _Job:
    """One text to generate."""

    index: int
    prompt_ids: list[int]
    echoed: str
    params: SamplingParams
    constraint: Constraint | None
    cache_salt: str | None


@dataclass(slots=True)
class TextChoice:
    """One text, put together from its pieces."""

    index: int
    vocabulary: Vocabulary
    has_logprobs: bool
    text: str = ""
    steps: list[StepLogprobs] = field(default_factory=list["StepLogprobs"])
    ending: dict[str, Any] = field(default_factory=lambda: dict[str, Any](finish_reason=None))
    usage: TurnUsage = field(default_factory=TurnUsage)
    offset: int = 0
    """Characters of the tokens that were told."""

    def add(self, text: str, steps: Sequence[StepLogprobs], ending: Mapping[str, Any]) -> dict[str, Any]:
        """Add a piece; return what a stream tells of it."""
        self.text += text
        self.steps += steps
        self.ending |= ending
        logprobs = self._logprobs(steps) if self.has_logprobs and steps else None
        return {"index": self.index, "text": text, "logprobs": logprobs, "finish_reason": None, **ending}

    @property
    def whole(self) -> dict[str, Any]:
        """The choice of an answer that is not streamed."""
        self.offset = 0
        logprobs = self._logprobs(self.steps) if self.has_logprobs else None
        return {"index": self.index, "text": self.text, "logprobs": logprobs, **self.ending}

    def _logprobs(self, steps: Sequence[StepLogprobs]) -> dict[str, Any]:
        entries = [logprob_entry(step, self.vocabulary) for step in steps]
        offsets: list[int] = []
        for entry in entries:
            offsets.append(self.offset)
            self.offset += len(entry["token"])
        return {
            "tokens": [entry["token"] for entry in entries],
            "token_logprobs": [entry["logprob"] for entry in entries],
            "top_logprobs": [{top["token"]: top["logprob"] for top in entry["top_logprobs"]} for entry in entries],
            "text_offset": offsets,
        }


async def answer_completion(serving: Serving, exchange: Exchange) -> None:
    """Go on after one prompt or several.

    Raises:
        ApiError: the request is refused.
        SureactError: the engine failed.
    """
    values = await exchange.read_fields(COMPLETION_FIELDS)
    serving.check_model(values["model"])
    options = StreamOptions.of(values)
    if values["echo"] and values["logprobs"] is not None:
        raise ApiError(
            "echo cannot be combined with logprobs: those of the prompt are not computed.",
            param="echo",
            code="unsupported_value",
        )
    salt = serving.cache_salt(exchange.scope, values["cache_salt"])
    jobs = await on_thread(_jobs, serving, values, salt)
    choices = [TextChoice(job.index, serving.vocabulary, values["logprobs"] is not None) for job in jobs]
    head = AnswerHead(serving.model_name, "text_completion", "cmpl-")

    async def run(sender: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        await run_all(
            [_generate(serving, job, choice, values, sender) for job, choice in zip(jobs, choices, strict=True)]
        )

    if not options.is_streamed:
        await run(_drop)
        usage = _usage(choices, values["n"])
        await exchange.send_json(head.of([choice.whole for choice in choices], usage=usage))
        return
    stream = EventStream(exchange, serving.config.keep_alive_s)
    others: dict[str, Any] = {"usage": None} if options.includes_usage else {}

    async def stream_all() -> None:
        await run(lambda told: stream.send(head.of([told], **others)))
        if options.includes_usage:
            await stream.send(head.of([], usage=_usage(choices, values["n"])))

    await stream.run(stream_all())


async def _drop(told: dict[str, Any]) -> None:
    pass


def _jobs(serving: Serving, values: Mapping[str, Any], cache_salt: str | None) -> list[_Job]:
    asked = only_one(values["response_format"], values["structured_outputs"])
    if asked is not None:
        refuse_with_constraint(values, asked.param)
    serving.check_token_ids(values["stop_token_ids"], "stop_token_ids")
    constraint = compiled(serving, asked)
    engine = serving.engine.engine
    jobs: list[_Job] = []
    for position, prompt in enumerate(values["prompt"]):
        param = "prompt" if len(values["prompt"]) == 1 else f"prompt[{position}]"
        try:
            ids = engine.encode_prompt(prompt, values["parse_control_tokens"])
        except ValueError as error:
            raise api_error_of(error, param=param) from error
        limit = max_tokens(serving, ids, values["max_tokens"], param=param)
        params = sampling_params(values, max_tokens=limit, logprobs=values["logprobs"])
        echoed = ""
        if values["echo"]:
            echoed = prompt if isinstance(prompt, str) else engine.decode(prompt)
        for number in range(values["n"]):
            seeded = params if params.seed is None else replace(params, seed=params.seed + number)
            jobs.append(_Job(len(jobs), ids, echoed, seeded, constraint, cache_salt))
    return jobs


async def _generate(
    serving: Serving,
    job: _Job,
    choice: TextChoice,
    values: Mapping[str, Any],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    if job.echoed:
        await send(choice.add(job.echoed, (), {}))
    logprobs = ShownLogprobs(serving.vocabulary.token_bytes)
    stream = serving.engine.stream(job.prompt_ids, job.params, job.constraint, cache_salt=job.cache_salt)
    output: StepOutput | None = None
    generation = new_generation()
    async with stream as deltas:
        async for delta in deltas:
            generation.saw(delta)
            told = logprobs.push(delta, delta.text)
            output = delta.output
            if delta.text or told:
                await send(choice.add(delta.text, told, {}))
    assert output is not None, "a stream ends with its output"
    if job.constraint is not None and output.finish_reason == "stop":
        await asyncio.to_thread(job.constraint.parse, output.text)
    choice.usage = TurnUsage(
        prompt_tokens=output.usage.prompt_tokens,
        cached_tokens=output.usage.cached_tokens,
        completion_tokens=output.usage.completion_tokens,
    )
    generation.end(choice.usage, output.finish_reason)
    ending: dict[str, Any] = {
        "finish_reason": output.finish_reason,
        "stop_reason": told_stop_reason(serving, output, job.params) if output.finish_reason == "stop" else None,
    }
    if are_guards_on(values):
        ending["early_ends"] = [early_end_object(end) for end in output.early_ends]
    if values["return_token_ids"]:
        ending |= {"token_ids": list(output.token_ids), "prompt_token_ids": job.prompt_ids}
    await send(choice.add("", (), ending))


def _usage(choices: Sequence[TextChoice], num_each: int) -> dict[str, Any]:
    """Return the usage of all texts; a prompt counts once, however many texts go on after it."""
    firsts = [choice.usage for choice in choices[::num_each]]
    total = TurnUsage(
        prompt_tokens=sum(usage.prompt_tokens for usage in firsts),
        cached_tokens=sum(usage.cached_tokens for usage in firsts),
        completion_tokens=sum(choice.usage.completion_tokens for choice in choices),
    )
    return usage_object([total])
