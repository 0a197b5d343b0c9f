"""Reads the messages of a chat into the form that chat templates take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from sureact.server.api_error import ApiError
from sureact.server.field_values import one_of, read_list, read_object, read_text, refuse
from sureact.server.request_body import parse_json
from sureact.server.request_fields import MISSING, Field, Read, honored, neutral, read_fields

if TYPE_CHECKING:
    from sureact.tokens.chat_template import Message

MAX_MESSAGES = 10_000
_MAX_ARGUMENT_DEPTH = 128
"""Of arguments that are given as a text of JSON."""

_PART_FIELDS: Sequence[Field] = (
    honored("type", "a word", read_text, MISSING),
    honored("text", "a text", read_text, MISSING),
)


TEXT_OR_PARTS = "a text or a list of text parts"


def content_reader(*kinds: str, fields: Sequence[Field] = _PART_FIELDS) -> Read:
    """Return what reads a content: a text, or parts, which must be texts and are joined.

    Args:
        kinds: the types that parts may have.
        fields: of a part.
    """
    allowed = " or ".join(f"'{kind}'" for kind in kinds)

    def read_parts(value: Any, path: str) -> str:
        texts: list[str] = []
        for index, part in enumerate(read_list(value, path)):
            place = f"{path}[{index}]"
            given = read_object(part, place)
            if given.get("type") not in kinds:
                refuse(given.get("type"), f"{place}.type", f"{allowed}: the model reads nothing else")
            texts.append(read_fields(given, fields, path=place)["text"])
        return "".join(texts)

    return one_of((str, read_text), (list, read_parts), allowed=TEXT_OR_PARTS)


_CONTENT = content_reader("text")


def read_arguments(value: Any, path: str) -> Mapping[str, Any]:
    """Read the arguments of an earlier call: an object, or its text, as the protocol has it.

    Raises:
        ApiError: they are none.
    """
    if isinstance(value, str):
        try:
            value = parse_json(value or "{}", path, _MAX_ARGUMENT_DEPTH)
        except ApiError as error:
            raise ApiError(str(error), param=path, code="invalid_value") from error
    return read_object(value, path)


_CALL_FIELDS: Sequence[Field] = (
    honored("id", "a text", read_text),
    neutral("type", "function"),
    neutral("index", *range(64)),
    honored("function", "an object", read_object, MISSING),
)
_CALLED_FIELDS: Sequence[Field] = (
    honored("name", "a text", read_text, MISSING),
    honored("arguments", "an object, or its text", read_arguments, {}),
)


def _tool_calls(value: Any, path: str) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    for index, call in enumerate(read_list(value, path)):
        place = f"{path}[{index}]"
        fields = read_fields(read_object(call, place), _CALL_FIELDS, path=place)
        function = read_fields(fields["function"], _CALLED_FIELDS, path=f"{place}.function")
        calls.append({"type": "function", "id": fields["id"] or f"call_{index}", "function": function})
    return calls


_ROLE = honored("role", "a word", read_text, MISSING)
_NAME = honored("name", "a text", read_text)
_PLAIN_FIELDS: Sequence[Field] = (_ROLE, honored("content", TEXT_OR_PARTS, _CONTENT, MISSING), _NAME)
_FIELDS: Mapping[str, Sequence[Field]] = {
    "system": _PLAIN_FIELDS,
    "developer": _PLAIN_FIELDS,
    "user": _PLAIN_FIELDS,
    "assistant": (
        _ROLE,
        honored("content", TEXT_OR_PARTS, _CONTENT, ""),
        honored("tool_calls", "a list of calls", _tool_calls),
        honored("reasoning_content", "a text", read_text),
        _NAME,
        neutral("refusal"),
        neutral("audio"),
        neutral("annotations", []),
        neutral("function_call"),
    ),
    "tool": (
        _ROLE,
        honored("content", TEXT_OR_PARTS, _CONTENT, MISSING),
        honored("tool_call_id", "a text", read_text),
        _NAME,
    ),
}


def read_messages(value: Any, path: str) -> list[Message]:
    """Read the field `messages`.

    Raises:
        ApiError: it is empty, or a message has a role, a field or a content that is not honored.
    """
    given = read_list(value, path)
    if not given or len(given) > MAX_MESSAGES:
        raise ApiError(
            f"{path} has {len(given):,} messages; give 1 to {MAX_MESSAGES:,}.", param=path, code="invalid_value"
        )
    return [_message(item, f"{path}[{index}]") for index, item in enumerate(given)]


def _message(value: Any, path: str) -> Message:
    fields = read_object(value, path)
    role = fields.get("role")
    if not isinstance(role, str) or role not in _FIELDS:
        refuse(role, f"{path}.role", f"one of {', '.join(_FIELDS)}")
    values = read_fields(fields, _FIELDS[role], path=path)
    if role == "assistant" and fields.get("content") is None and not values["tool_calls"]:
        raise ApiError(
            f"{path}.content is missing. An assistant's message has a content, tool_calls or both.",
            param=f"{path}.content",
            code="missing_parameter",
        )
    kept = {name: item for name, item in values.items() if item not in (None, []) and name != "annotations"}
    # Chat templates know no other word for what developers tell the model.
    return cast("Message", {**kept, "role": "system" if role == "developer" else role})
