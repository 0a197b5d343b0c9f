"""Reads the messages of a chat into the form that chat templates take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from sureact.server.api_error import ApiError
from sureact.server.field_values import one_of, read_list, read_object, read_text, refuse
from sureact.server.request_body import parse_json
from sureact.server.request_fields import MISSING, Field, Read, honored, neutral, read_fields, shown

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
    calls, call_ids = list[dict[str, Any]](), set[str]()
    for index, call in enumerate(read_list(value, path)):
        place = f"{path}[{index}]"
        fields = read_fields(read_object(call, place), _CALL_FIELDS, path=place)
        function = read_fields(fields["function"], _CALLED_FIELDS, path=f"{place}.function")
        call_id = fields["id"] or f"call_{index}"
        if call_id in call_ids:
            raise ApiError(
                f"{place}.id is {shown(call_id)}, which another call of the message has too.",
                param=f"{place}.id",
                code="invalid_value",
            )
        call_ids.add(call_id)
        calls.append({"type": "function", "id": call_id, "function": function})
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
        ApiError: it is empty, a message has a role, a field or a content that is not honored, or calls and their
            results do not belong together.
    """
    given = read_list(value, path)
    if not given or len(given) > MAX_MESSAGES:
        raise ApiError(
            f"{path} has {len(given):,} messages; give 1 to {MAX_MESSAGES:,}.", param=path, code="invalid_value"
        )
    messages = [_message(item, f"{path}[{index}]") for index, item in enumerate(given)]
    _order_results(messages, path)
    return messages


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


def _order_results(messages: list[Message], path: str) -> None:
    """Put the results of each turn into the order of its calls: many templates show no ids, so the order tells."""
    position = 0
    while position < len(messages):
        if messages[position]["role"] == "tool":
            place = f"{path}[{position}]"
            raise ApiError(
                f"{place} is the result of no call: it must stand behind an assistant's message with tool_calls, or "
                "behind another result of these.",
                param=f"{place}.role",
                code="invalid_value",
            )
        calls, first = messages[position].get("tool_calls", []), position + 1
        position = first
        while calls and position < len(messages) and messages[position]["role"] == "tool":
            position += 1
        if position > first:
            messages[first:position] = _results_of(calls, messages[first:position], path, first)


def _results_of(calls: Sequence[Mapping[str, Any]], results: Sequence[Message], path: str, first: int) -> list[Message]:
    """Return the result of each call. One without an id is that of the first call that has none yet."""
    found: dict[str, Message | None] = {call["id"]: None for call in calls}
    without = (call_id for call_id in found if found[call_id] is None)
    for index, result in enumerate(results, first):
        place = f"{path}[{index}].tool_call_id"
        call_id: Any = cast("dict[str, Any]", result).get("tool_call_id") or next(without, None)
        if found.get(call_id, result) is not None:
            what = "whose result is there already" if call_id in found else "which no call before it has"
            told = f"{place} is {shown(call_id)}, {what}" if call_id is not None else f"{path}[{index}] has no call"
            raise ApiError(f"{told}. The calls are {shown(list(found))}.", param=place, code="invalid_value")
        found[call_id] = cast("Message", {**result, "tool_call_id": call_id})
    ordered: list[Message] = []
    for number, (call_id, known) in enumerate(found.items()):
        if known is None:
            raise ApiError(
                f"The call {shown(call_id)} has no result, and others of its turn have one. Add a tool message for it.",
                param=f"{path}[{first - 1}].tool_calls[{number}].id",
                code="invalid_value",
            )
        ordered.append(known)
    return ordered
