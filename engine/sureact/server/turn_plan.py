"""What a turn of the model is to be: prompt, constraint, tools and limits, all checked before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sureact.agent.call_opening import CLOSE_TAG, OPEN_TAG
from sureact.agent.formats.qwen_tool_call import QwenToolCallFormat
from sureact.agent.further_call import FurtherCall
from sureact.agent.prompt_format import THINK_CLOSE, THINK_OPEN, think_closed
from sureact.errors import SureactError
from sureact.server.answer_constraint import only_one
from sureact.server.api_error import ApiError, api_error_of
from sureact.server.call_text import CallFormat
from sureact.server.chat_fields import wanted_logprobs, wanted_thinking, wanted_tokens
from sureact.server.chat_prompt import render_chat_prompt
from sureact.server.guard_fields import are_guards_on
from sureact.server.off_loop import on_thread
from sureact.server.request_record import compile_time
from sureact.server.sampling_fields import sampling_params
from sureact.server.tool_plan import tool_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sureact.constraints.call_grammar import ToolCallConstraint
    from sureact.constraints.constraint import Constraint
    from sureact.sampling_params import SamplingParams
    from sureact.server.answer_constraint import AnswerConstraint
    from sureact.server.serving import Serving
    from sureact.server.tool_plan import ToolPlan

_AFTER_ARGUMENTS = "}\n"


@dataclass(frozen=True, slots=True)
class CallConstraints:
    """How calls are decoded."""

    tag_ids: tuple[int, ...]
    """What opens a call."""
    call: ToolCallConstraint
    """A call with its opening tag."""
    call_format: CallFormat


@dataclass(frozen=True, slots=True)
class ThinkTags:
    """Ids of the control tokens around a thought."""

    open_id: int
    close_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """A turn, ready to be run."""

    prompt_ids: list[int]
    params: SamplingParams
    """Of the answer; `max_tokens` is of the whole turn."""
    constraint: Constraint | None
    tools: ToolPlan
    calls: CallConstraints | None
    further: FurtherCall | None
    """Says whether another call follows one; None where one is all that is wanted."""
    think_tags: ThinkTags | None
    is_thinking: bool
    """Whether the prompt ends inside of a thought."""
    may_think: bool
    """Whether the model may begin a thought itself."""
    thinking_budget: int | None
    tells_early_ends: bool
    cache_salt: str | None


@dataclass(frozen=True, slots=True)
class FieldNames:
    """What a route calls the fields that a plan may find fault with."""

    messages: str = "messages"
    max_tokens: str = "max_tokens"
    function: str = ".function"
    """Where a tool's function stands in the tool."""


async def plan_turn(
    serving: Serving, values: Mapping[str, Any], cache_salt: str | None, names: FieldNames = FieldNames()
) -> TurnPlan:
    """Check all of a chat's request, and compile its constraints.

    Args:
        serving: whom it is asked.
        values: of `CHAT_FIELDS`.
        cache_salt: with whom the prompt may share what is cached.
        names: of its fields, for what is said of them.

    Raises:
        ApiError: something in it is not honored.
    """
    return await on_thread(_plan, serving, values, cache_salt, names)


def _plan(serving: Serving, values: Mapping[str, Any], cache_salt: str | None, names: FieldNames) -> TurnPlan:
    engine = serving.engine.engine
    tools = tool_plan(values["tools"], values["tool_choice"], is_parallel=values["parallel_tool_calls"])
    asked = only_one(values["response_format"], values["structured_outputs"])
    _check_together(values, tools, asked)
    prompt = render_chat_prompt(engine, values, tools, param=names.messages)
    serving.check_token_ids(values["stop_token_ids"], "stop_token_ids")
    tags = _think_tags(serving)
    prompt_ids = engine.encode(prompt.text)
    params = sampling_params(
        values,
        max_tokens=max_tokens(serving, prompt_ids, wanted_tokens(values), param=names.messages, limit=names.max_tokens),
        logprobs=wanted_logprobs(values),
    )
    may_think = tags is not None and prompt.may_think
    if values["min_tokens"] and (may_think or prompt.is_thinking):
        raise ApiError(
            "min_tokens cannot be combined with a model that thinks: a thought has no least length.",
            param="min_tokens",
            code="unsupported_value",
        )
    return TurnPlan(
        prompt_ids=prompt_ids,
        params=params,
        constraint=compiled(serving, asked),
        tools=tools,
        calls=_call_constraints(serving, tools, names) if tools.functions else None,
        further=_further_call(serving, values, tools, cache_salt) if tools.functions and tools.is_parallel else None,
        think_tags=tags,
        is_thinking=prompt.is_thinking,
        may_think=may_think,
        thinking_budget=wanted_thinking(values),
        tells_early_ends=are_guards_on(values),
        cache_salt=cache_salt,
    )


def max_tokens(
    serving: Serving, prompt_ids: list[int], wanted: int | None, *, param: str, limit: str = "max_tokens"
) -> int:
    """Return the most tokens that may be generated after a prompt.

    Raises:
        ApiError: the prompt is empty, or does not fit with what is wanted.
    """
    engine = serving.engine.engine
    if not prompt_ids:
        raise ApiError(f"{param} is empty. Give at least one token.", param=param, code="invalid_value")
    room = engine.context_len - len(prompt_ids)
    if room < (wanted or 1):
        raise ApiError(
            f"{param} has {len(prompt_ids):,} tokens; the model takes {engine.context_len:,} including "
            f"{limit}={wanted or 1:,}. Shorten it" + (f" or lower {limit}." if wanted else "."),
            param=param,
            code="context_length_exceeded",
        )
    return wanted or room


def compiled(serving: Serving, asked: AnswerConstraint | None) -> Constraint | None:
    """Compile the constraint on an answer, so that what is wrong with it is told before anything is decoded.

    Raises:
        ApiError: it cannot be enforced.
    """
    if asked is None:
        return None
    try:
        with compile_time():
            constraint = asked.make()
            constraint.compile(serving.vocabulary)
    except SureactError as error:
        raise api_error_of(error, param=asked.param) from error
    return constraint


def refuse_with_constraint(values: Mapping[str, Any], param: str) -> None:
    """Refuse what says where a text ends beside a constraint, which says so itself.

    Raises:
        ApiError: one of the fields is given.
    """
    for name in ("stop", "stop_token_ids", "min_tokens", "ignore_eos"):
        if values[name]:
            raise ApiError(
                f"{name} cannot be combined with {param}, which says where the text ends. Leave {name} out.",
                param=name,
                code="unsupported_value",
            )


def _check_together(values: Mapping[str, Any], tools: ToolPlan, asked: AnswerConstraint | None) -> None:
    if asked is not None:
        if tools.functions:
            raise ApiError(
                f"{asked.param} cannot be combined with tools. Give tool_choice 'none' for an answer in that form.",
                param=asked.param,
                code="unsupported_value",
            )
        refuse_with_constraint(values, asked.param)
    if tools.functions:
        for name in ("min_tokens", "ignore_eos"):
            if values[name]:
                raise ApiError(
                    f"{name} cannot be combined with tools: the model must be free to begin a call, or to end.",
                    param=name,
                    code="unsupported_value",
                )


def _think_tags(serving: Serving) -> ThinkTags | None:
    open_id, close_id = serving.control_id(THINK_OPEN), serving.control_id(THINK_CLOSE)
    return None if open_id is None or close_id is None else ThinkTags(open_id, close_id)


def _call_constraints(serving: Serving, tools: ToolPlan, names: FieldNames) -> CallConstraints:
    from sureact.constraints.call_grammar import ControlToken, tool_call_grammar
    from sureact.constraints.json_schema import json_schema

    for branch in tools.branches:
        param = f"tools[{tools.index_of(branch.name)}]{names.function}.parameters"
        try:
            json_schema({"type": "object", **branch.args_schema}, additional_properties="closed").check()
            tool_call_grammar([branch], prefix="", delimiter=" ", suffix="")
        except SureactError as error:
            raise api_error_of(error, param=param) from error
    # A tokenizer without these control tokens reads and writes the tags as text.
    has_tags = serving.control_id(OPEN_TAG) is not None and serving.control_id(CLOSE_TAG) is not None
    opening, closing = (ControlToken(OPEN_TAG), ControlToken(CLOSE_TAG)) if has_tags else (OPEN_TAG, CLOSE_TAG)
    before, between = QwenToolCallFormat.before_name, QwenToolCallFormat.before_arguments
    suffix = (_AFTER_ARGUMENTS, closing)
    constraints = CallConstraints(
        tuple(serving.engine.engine.encode(OPEN_TAG, parse_control_tokens=True)),
        call=tool_call_grammar(tools.branches, prefix=(opening, before), delimiter=between, suffix=suffix),
        call_format=CallFormat(_text(opening, before), between, _text(*suffix)),
    )
    try:
        with compile_time():
            constraints.call.compile(serving.vocabulary)
    except SureactError as error:
        raise api_error_of(error, param="tools") from error
    return constraints


def _further_call(serving: Serving, values: Mapping[str, Any], tools: ToolPlan, cache_salt: str | None) -> FurtherCall:
    engine, variables = serving.engine.engine, values["chat_template_kwargs"]
    return FurtherCall(
        lambda: engine.session(cache_salt=cache_salt),
        lambda messages: think_closed(engine.render_chat(messages, tools=tools.functions, variables=variables)),
        values["messages"],
    )


def _text(*parts: object) -> str:
    return "".join(part for part in parts if isinstance(part, str))
