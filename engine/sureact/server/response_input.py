"""Reads the input of a response, a text or a list of items, into the messages that chat templates take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from sureact.server.api_error import ApiError
from sureact.server.chat_messages import MAX_MESSAGES, TEXT_OR_PARTS, content_reader, read_arguments
from sureact.server.field_values import one_of, read_list, read_object, read_text, refuse
from sureact.server.request_fields import MISSING, Field, honored, ignored, neutral, read_fields, shown

if TYPE_CHECKING:
    from sureact.tokens.chat_template import Message

_ROLES = ("user", "assistant", "system", "developer")
_PART_FIELDS: Sequence[Field] = (
    honored("type", "a word", read_text, MISSING),
    honored("text", "a text", read_text, MISSING),
    ignored("annotations", "a list", read_list, note="Of an answer's text."),
    ignored("logprobs", "a list", read_list, note="Of an answer's text."),
    neutral("prompt_cache_breakpoint"),
)


def _role(value: Any, path: str) -> str:
    return value if value in _ROLES else refuse(value, path, f"one of {', '.join(_ROLES)}")


_ANY_ITEM: Sequence[Field] = (
    honored("type", "a word", read_text),
    ignored("id", "a text", read_text, note="Of an item of an answer."),
    ignored("status", "a word", read_text, note="Of an item of an answer."),
)
_CALLER: Sequence[Field] = (neutral("namespace"), neutral("caller", {"type": "direct"}))
_CALL_ID = honored("call_id", "a text", read_text, MISSING)
_CONTENT = content_reader("input_text", "output_text", fields=_PART_FIELDS)
_FIELDS: Mapping[str, Sequence[Field]] = {
    "message": (
        *_ANY_ITEM,
        honored("role", "a word", _role, MISSING),
        honored("content", TEXT_OR_PARTS, _CONTENT, MISSING),
        ignored("phase", "a word", read_text, note="Of an answer's message."),
    ),
    "function_call": (
        *_ANY_ITEM,
        *_CALLER,
        _CALL_ID,
        honored("name", "a text", read_text, MISSING),
        honored("arguments", "an object, or its text", read_arguments, MISSING),
        neutral("async", False),
    ),
    "function_call_output": (
        *_ANY_ITEM,
        *_CALLER,
        _CALL_ID,
        honored("output", TEXT_OR_PARTS, content_reader("input_text", fields=_PART_FIELDS), MISSING),
        ignored("name", "a text", read_text, note="The call has it."),
    ),
    "reasoning": (
        *_ANY_ITEM,
        honored("content", TEXT_OR_PARTS, content_reader("reasoning_text"), ""),
        neutral("summary", []),
        neutral("encrypted_content"),
    ),
}


def _read_string(value: str, path: str) -> list[Message]:
    return [{"role": "user", "content": value}] if value else refuse(value, path, "a text that is not empty")


def _read_items(value: Any, path: str) -> list[Message]:
    items = read_list(value, path)
    if not items or len(items) > MAX_MESSAGES:
        raise ApiError(
            f"{path} has {len(items):,} items; give 1 to {MAX_MESSAGES:,}.", param=path, code="invalid_value"
        )
    conversation = _Conversation()
    for index, item in enumerate(items):
        conversation.add(item, f"{path}[{index}]")
    return conversation.end()


_INPUT = one_of((str, _read_string), (list, _read_items), allowed="a text or a list of items")


def read_input(value: Any, path: str) -> list[Message]:
    """Read the field `input`.

    What the model wrote in one turn, its thought, text and calls, stands in items of its own and becomes one message
    again, so that the prompt is the one that was cached.

    Raises:
        ApiError: it is empty, an item is not honored, or calls and their outputs do not belong together.
    """
    return _INPUT(value, path)


class _Conversation:
    """Messages that are put together from items."""

    def __init__(self) -> None:
        self._messages: list[dict[str, Any]] = []
        self._turn: dict[str, Any] | None = None
        """The assistant's message that the next item may belong to."""
        self._open_calls: dict[str, str] = {}
        """Calls without an output, and the fields that name them."""
        self._call_numbers: dict[str, int] = {}
        """All calls, in their order."""

    def add(self, value: Any, path: str) -> None:
        """Add an item."""
        fields = read_object(value, path)
        kind = fields.get("type")
        if kind is None and "role" in fields:
            kind = "message"
        if not isinstance(kind, str) or kind not in _FIELDS:
            refuse(kind, f"{path}.type", f"one of {', '.join(_FIELDS)}")
        values = read_fields(fields, _FIELDS[kind], path=path)
        is_between = self._messages and self._messages[-1]["role"] == "tool"
        if kind != "function_call_output" and (is_between or values.get("role", "assistant") != "assistant"):
            self._check_outputs()
        match kind:
            case "message":
                self._add_message(values["role"], values["content"])
            case "function_call":
                self._add_call(values, f"{path}.call_id")
            case "function_call_output":
                self._add_output(values, f"{path}.call_id")
            case _:
                self._add_thought(values["content"])

    def end(self) -> list[Message]:
        """Return the messages, the outputs of each turn in the order of its calls.

        Raises:
            ApiError: a call has no output.
        """
        self._check_outputs()
        ordered: list[dict[str, Any]] = []
        for is_output, messages in groupby(self._messages, key=lambda message: message["role"] == "tool"):
            # Many templates show no ids, so the order tells what an output belongs to.
            turn = list(messages)
            ordered += sorted(turn, key=self._number_of_call) if is_output else turn
        return cast("list[Message]", ordered)

    def _number_of_call(self, output: Mapping[str, Any]) -> int:
        return self._call_numbers[output["tool_call_id"]]

    def _check_outputs(self) -> None:
        for call_id, param in self._open_calls.items():
            raise ApiError(
                f"The call {shown(call_id)} has no function_call_output behind it. Add one, before what comes next.",
                param=param,
                code="invalid_value",
            )

    def _add_message(self, role: str, content: str) -> None:
        if role == "assistant":
            self._turn_without("content", "tool_calls")["content"] = content
            return
        self._turn = None
        # Chat templates know no other word for what developers tell the model.
        self._messages.append({"role": "system" if role == "developer" else role, "content": content})

    def _add_thought(self, text: str) -> None:
        turn = self._turn_without("content", "tool_calls")
        turn["reasoning_content"] = "\n".join(filter(None, (turn.get("reasoning_content"), text)))

    def _add_call(self, values: Mapping[str, Any], param: str) -> None:
        call_id = values["call_id"]
        if call_id in self._call_numbers:
            raise ApiError(
                f"{param} is {shown(call_id)}, which another call has too.", param=param, code="invalid_value"
            )
        self._call_numbers[call_id] = len(self._call_numbers)
        self._open_calls[call_id] = param
        function = {"name": values["name"], "arguments": values["arguments"]}
        calls = self._turn_without().setdefault("tool_calls", [])
        calls.append({"type": "function", "id": call_id, "function": function})

    def _add_output(self, values: Mapping[str, Any], param: str) -> None:
        call_id = values["call_id"]
        if self._open_calls.pop(call_id, None) is None:
            what = (
                "whose output is there already"
                if call_id in self._call_numbers
                else "which no function_call before it has"
            )
            raise ApiError(f"{param} is {shown(call_id)}, {what}.", param=param, code="invalid_value")
        self._turn = None
        self._messages.append({"role": "tool", "content": values["output"], "tool_call_id": call_id})

    def _turn_without(self, *names: str) -> dict[str, Any]:
        """Return the assistant's message that goes on, or a new one if there is none or it has any of these already."""
        if self._turn is None or any(self._turn.get(name) for name in names):
            self._turn = {"role": "assistant", "content": ""}
            self._messages.append(self._turn)
        return self._turn
