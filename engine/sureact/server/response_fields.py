"""The fields of `/v1/responses`, and what a chat would say in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sureact.server.answer_constraint import STRUCTURED_FIELDS, read_text_format
from sureact.server.api_error import ApiError
from sureact.server.chat_fields import CHAT_FIELDS, EFFORT_NOTE, TEMPLATE_FIELD, TURN_FIELDS, read_effort
from sureact.server.field_values import boolean, integer, read_object, read_text, read_texts, refuse, text
from sureact.server.request_fields import MISSING, Field, honored, ignored, neutral, read_fields, refused
from sureact.server.response_input import read_input
from sureact.server.sampling_fields import CACHE_SALT_FIELD, CLIENT_FIELDS, MODEL_FIELD, SAMPLING_FIELDS
from sureact.server.tool_plan import read_flat_tool_choice, read_flat_tools
from sureact.server.turn_plan import FieldNames

if TYPE_CHECKING:
    from sureact.server.answer_constraint import AnswerConstraint

LOGPROBS = "message.output_text.logprobs"
RESPONSE_NAMES = FieldNames(messages="input", max_tokens="max_output_tokens", function="")

_MAX_METADATA = 16
_MAX_METADATA_KEY = 64
_MAX_METADATA_TEXT = 512

_TEXT_FIELDS: Sequence[Field] = (
    honored("format", "an object", read_text_format),
    neutral("verbosity", "medium"),
)
_REASONING_FIELDS: Sequence[Field] = (
    honored("effort", '`"none"`', read_effort),
    refused("summary", "Thoughts come as they are."),
    refused("generate_summary", "Thoughts come as they are."),
    neutral("context", "auto"),
    neutral("mode", "standard"),
)
_STREAM_OPTIONS: Sequence[Field] = (neutral("include_usage", True), neutral("include_obfuscation", False))


def _text(value: Any, path: str) -> AnswerConstraint | None:
    return read_fields(read_object(value, path), _TEXT_FIELDS, path=path)["format"]


def _reasoning(value: Any, path: str) -> str | None:
    return read_fields(read_object(value, path), _REASONING_FIELDS, path=path)["effort"]


def _stream_options(value: Any, path: str) -> None:
    read_fields(read_object(value, path), _STREAM_OPTIONS, path=path)


def _metadata(value: Any, path: str) -> Mapping[str, str]:
    """Read what comes back with each event that holds the response, so it has the protocol's limits."""
    members = read_object(value, path)
    if len(members) > _MAX_METADATA:
        refuse(f"{len(members):,} members", path, f"an object of at most {_MAX_METADATA} texts")
    for name, member in members.items():
        told = read_text(member, f"{path}.{name[:_MAX_METADATA_KEY]}")
        if len(name) > _MAX_METADATA_KEY or len(told) > _MAX_METADATA_TEXT:
            allowed = f"texts of at most {_MAX_METADATA_TEXT} characters, by names of at most {_MAX_METADATA_KEY}"
            refuse(name, path, allowed)
    return members


def _include(value: Any, path: str) -> list[str]:
    names = read_texts(value, path)
    for index, name in enumerate(names):
        if name != LOGPROBS:
            refuse(name, f"{path}[{index}]", f"{LOGPROBS!r}, all that can be included here")
    return names


RESPONSE_FIELDS: Sequence[Field] = (
    MODEL_FIELD,
    honored("input", "a text, or a list of items", read_input, MISSING),
    text("instructions", default_text="none", note="Stands before the input as a system's message."),
    *SAMPLING_FIELDS,
    integer("max_output_tokens", None, least=1, default_text="what the context has room for"),
    honored("include", f"a list of `{LOGPROBS}`", _include, (), default_text="none"),
    integer("top_logprobs", None, least=0, most=20, default_text="0", note=f"Only with `{LOGPROBS}` in `include`."),
    boolean("stream", False),
    honored("tools", "a list of functions", read_flat_tools, (), default_text="none", schema="flat_tools"),
    honored(
        "tool_choice",
        '`"none"`, `"auto"`, `"required"`, a named function or allowed tools',
        read_flat_tool_choice,
        default_text='`"auto"` with tools',
        note="`none` does not show the tools to the model.",
        schema="flat_tool_choice",
    ),
    TEMPLATE_FIELD,
    *TURN_FIELDS,
    honored(
        "text",
        "an object with a `format` of type `text`, `json_object` or `json_schema`",
        _text,
        default_text="`text`",
        note="`verbosity` must be `medium`.",
        schema="response_text",
    ),
    *STRUCTURED_FIELDS,
    CACHE_SALT_FIELD,
    honored(
        "metadata",
        "an object of at most 16 texts",
        _metadata,
        default_text="none",
        note="Comes back, and is not stored.",
        schema="response_metadata",
    ),
    *(field for field in CLIENT_FIELDS if field.name != "metadata"),
    honored(
        "reasoning", "an object with an `effort` of `none`", _reasoning, default_text="none is said", note=EFFORT_NOTE
    ),
    ignored(
        "stream_options",
        "an object",
        _stream_options,
        note="Usage is always told, nothing is obfuscated.",
        schema="response_stream_options",
    ),
    neutral("background", False),
    neutral("truncation", "disabled"),
    neutral("access_programs"),
    neutral("background_options"),
    neutral("image"),
    neutral("prompt_cache_options"),
    refused("context_management", "Send the items that the model is to read."),
    refused("conversation", "Nothing is stored. Send the earlier items in `input`."),
    refused("previous_response_id", "Nothing is stored. Send the earlier items in `input`."),
    refused("prompt", "Nothing is stored. Use `instructions` and `input`."),
    refused("max_tool_calls", "It counts calls of built-in tools, and there are none. Use `parallel_tool_calls`."),
    refused("moderation", "Answers are not judged here."),
    refused("logprobs", f"Use `include` with `{LOGPROBS}`."),
    refused("max_tokens", "Use `max_output_tokens`."),
    refused("max_completion_tokens", "Use `max_output_tokens`."),
    refused("messages", "Use `input`."),
    refused("reasoning_effort", "Use `reasoning` with an `effort`."),
    refused("response_format", "Use `text` with a `format`."),
)

_CHAT_DEFAULTS = {field.name: field.default for field in CHAT_FIELDS}


def chat_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that the fields of a chat have where it asks for the same.

    Args:
        values: of `RESPONSE_FIELDS`.

    Raises:
        ApiError: two values contradict each other.
    """
    if values["top_logprobs"] and not values["include"]:
        raise ApiError(
            f"top_logprobs goes with include: [{LOGPROBS!r}] only.", param="top_logprobs", code="invalid_value"
        )
    instructions = values["instructions"]
    return {
        **_CHAT_DEFAULTS,
        **values,
        "messages": [*([{"role": "system", "content": instructions}] if instructions else []), *values["input"]],
        "max_tokens": values["max_output_tokens"],
        "reasoning_effort": values["reasoning"],
        "response_format": values["text"],
        "logprobs": bool(values["include"]),
    }
