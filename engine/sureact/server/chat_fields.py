"""The fields of `/v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sureact.server.answer_constraint import RESPONSE_FORMAT_FIELD, STRUCTURED_FIELDS
from sureact.server.api_error import ApiError
from sureact.server.chat_messages import read_messages
from sureact.server.field_values import boolean, integer, read_object, refuse
from sureact.server.request_fields import MISSING, Field, honored, neutral, refused, shown
from sureact.server.sampling_fields import (
    CACHE_SALT_FIELD,
    CHOICE_FIELDS,
    CLIENT_FIELDS,
    MODEL_FIELD,
    SAMPLING_FIELDS,
    STREAM_FIELDS,
)
from sureact.server.tool_plan import read_tool_choice, read_tools

_OWN_VARIABLES = ("messages", "tools", "add_generation_prompt", "documents", "data_marks")


def template_variables(value: Any, path: str) -> Mapping[str, Any]:
    """Read what a chat template is told beside the messages, such as `enable_thinking`."""
    variables = read_object(value, path)
    for name, given in variables.items():
        if name in _OWN_VARIABLES or not name.isidentifier():
            refuse(name, path, "names of the template's own variables, such as enable_thinking")
        if not isinstance(given, str | int | float | bool | None):
            refuse(given, f"{path}.{name}", "a text, a number, true or false")
    return variables


def read_effort(value: Any, path: str) -> str:
    """Read how much is to be thought, of which one word is honored: the others mean no number of tokens."""
    if value != "none":
        raise ApiError(
            f"{path} is {shown(value)}; only 'none' is honored. Use `thinking_token_budget`, or `chat_template_kwargs` "
            "of the model.",
            param=path,
            code="unsupported_value",
        )
    return value


EFFORT_NOTE = "The same as `thinking_token_budget: 0`. For other words give a budget."
TEMPLATE_FIELD = honored("chat_template_kwargs", "an object", template_variables, default_text="none")
PROMPT_FIELDS: Sequence[Field] = (
    honored("tools", "a list of functions", read_tools, (), default_text="none"),
    boolean("add_generation_prompt", True),
    boolean("continue_final_message", False, note="The answer goes on where the last message, an assistant's, ends."),
    TEMPLATE_FIELD,
)
"""What makes a prompt of messages."""

TURN_FIELDS: Sequence[Field] = (
    boolean("parallel_tool_calls", True),
    integer("thinking_token_budget", None, least=0, default_text="none", note="Tokens of reasoning, then it is ended."),
)
"""Of every turn of a conversation, whichever route it is asked at."""

CHAT_FIELDS: Sequence[Field] = (
    MODEL_FIELD,
    honored("messages", "a list of messages", read_messages, MISSING),
    *SAMPLING_FIELDS,
    *CHOICE_FIELDS,
    integer("max_tokens", None, least=1, default_text="what the context has room for"),
    integer("max_completion_tokens", None, least=1, default_text="none", note="The same as `max_tokens`."),
    boolean("logprobs", False, note="Of the answer's tokens, before the constraint's mask and the temperature."),
    integer("top_logprobs", None, least=0, most=20, default_text="0", note="Only with `logprobs`."),
    *STREAM_FIELDS,
    *PROMPT_FIELDS,
    honored(
        "tool_choice",
        '`"none"`, `"auto"`, `"required"`, a named function or allowed tools',
        read_tool_choice,
        default_text='`"auto"` with tools',
        note="`none` does not show the tools to the model.",
    ),
    RESPONSE_FORMAT_FIELD,
    *STRUCTURED_FIELDS,
    *TURN_FIELDS,
    honored("reasoning_effort", '`"none"`', read_effort, default_text="none is said", note=EFFORT_NOTE),
    boolean("include_reasoning", True, note="`false` leaves `reasoning_content` out of the answer."),
    CACHE_SALT_FIELD,
    *CLIENT_FIELDS,
    neutral("functions", []),
    neutral("function_call", "none"),
    neutral("modalities", ["text"]),
    neutral("echo", False),
    neutral("add_special_tokens", False),
    refused("audio", "It speaks text."),
    refused("prediction", "Guesses are made without being told."),
    neutral("verbosity", "medium"),
    refused("input", "Use `messages`."),
    refused("instructions", "Use a system's message in `messages`."),
    refused("max_output_tokens", "Use `max_tokens`."),
    refused("prompt", "Use `messages`, or ask `/v1/completions`."),
    refused("reasoning", "Use `reasoning_effort` or `thinking_token_budget`."),
    refused("text", "Use `response_format`."),
    refused("web_search_options", "Nothing leaves this machine."),
    refused("documents", "Put them into a message."),
    refused("chat_template", "The model's own template is used."),
    refused("mm_processor_kwargs", "The model reads text."),
)


def wanted_tokens(values: Mapping[str, Any]) -> int | None:
    """Return the most tokens that are asked for; None for as many as there is room for.

    Raises:
        ApiError: two fields say two things.
    """
    limits = {values["max_tokens"], values["max_completion_tokens"]} - {None}
    if len(limits) > 1:
        raise ApiError(
            f"max_tokens is {values['max_tokens']} and max_completion_tokens {values['max_completion_tokens']}; they "
            "mean the same. Give one of them.",
            param="max_completion_tokens",
            code="invalid_value",
        )
    return limits.pop() if limits else None


def wanted_thinking(values: Mapping[str, Any]) -> int | None:
    """Return the most tokens of a thought; None for as many as there is room for.

    Raises:
        ApiError: two fields say two things.
    """
    budget = values["thinking_token_budget"]
    if values["reasoning_effort"] is None:
        return budget
    if budget:
        raise ApiError(
            f"thinking_token_budget is {budget}, and the effort of reasoning 'none', which is 0. Give one of them.",
            param="thinking_token_budget",
            code="invalid_value",
        )
    return 0


def wanted_logprobs(values: Mapping[str, Any]) -> int | None:
    """Return the likeliest tokens to tell at each position; None for nothing.

    Raises:
        ApiError: `top_logprobs` without `logprobs`.
    """
    if values["logprobs"]:
        return values["top_logprobs"] or 0
    if values["top_logprobs"]:
        raise ApiError("top_logprobs goes with logprobs: true only.", param="top_logprobs", code="invalid_value")
    return None
