"""The schemas of fields that hold more than one value of one type."""

from typing import Any

import jsonschema
import pytest

from sureact.server.answer_constraint import read_response_format, read_structured_outputs
from sureact.server.api_error import ApiError
from sureact.server.chat_messages import read_messages
from sureact.server.openapi_schemas import NAMED_SCHEMAS
from sureact.server.request_fields import Read
from sureact.server.response_fields import RESPONSE_FIELDS
from sureact.server.response_input import read_input
from sureact.server.tool_plan import read_flat_tool_choice, read_flat_tools, read_tool_choice, read_tools

_FUNCTION = {"name": "look_up", "description": "Looks up.", "parameters": {"type": "object"}, "strict": True}
_CALL = {"id": "c", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
_RESPONSE = {field.name: field.read for field in RESPONSE_FIELDS}
_OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "42"}
_FLAT_CALL = {"type": "function_call", "id": "fc", "call_id": "c", "name": "look_up", "arguments": "{}"}
_TEXT_PART = {"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}
_ANSWER = {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [_TEXT_PART]}
_THOUGHT = {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
_FORM = {"type": "json_schema", "name": "n", "schema": {}, "strict": True}
_ONE = [{"type": "function", "function": {"name": "look_up"}}]
_RESULT = {"role": "tool", "content": "42", "tool_call_id": _CALL["id"]}
_CASES: list[tuple[str, Read, Any, bool]] = [
    ("messages", read_messages, [{"role": "user", "content": "hi", "name": "me"}], True),
    ("messages", read_messages, [{"role": "user", "content": [{"type": "text", "text": "hi"}]}], True),
    ("messages", read_messages, [{"role": "assistant", "tool_calls": [_CALL]}], True),
    ("messages", read_messages, [{"role": "assistant", "tool_calls": [_CALL]}, _RESULT], True),
    ("messages", read_messages, [], False),
    ("messages", read_messages, [{"role": "user"}], False),
    ("messages", read_messages, [{"role": "judge", "content": "hi"}], False),
    ("messages", read_messages, [{"role": "user", "content": "hi", "tool_call_id": "c"}], False),
    ("messages", read_messages, [{"role": "user", "content": [{"type": "image_url"}]}], False),
    ("tools", read_tools, [{"type": "function", "function": _FUNCTION}], True),
    ("tools", read_tools, [{"type": "function", "function": {"name": "look up"}}], False),
    ("tools", read_tools, [{"type": "web_search", "function": _FUNCTION}], False),
    ("tool_choice", read_tool_choice, "required", True),
    ("tool_choice", read_tool_choice, {"type": "function", "function": {"name": "look_up"}}, True),
    (
        "tool_choice",
        read_tool_choice,
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": _ONE}},
        True,
    ),
    ("tool_choice", read_tool_choice, {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, False),
    ("tool_choice", read_tool_choice, "any", False),
    ("tool_choice", read_tool_choice, {"name": "look_up"}, False),
    ("response_format", read_response_format, {"type": "json_object"}, True),
    ("response_format", read_response_format, {"type": "json_schema", "json_schema": {"schema": {}}}, True),
    ("response_format", read_response_format, {"type": "json_schema"}, False),
    ("response_format", read_response_format, {"type": "xml"}, False),
    ("structured_outputs", read_structured_outputs, {"choice": ["yes", "no"]}, True),
    ("structured_outputs", read_structured_outputs, {"json": '{"type": "object"}'}, True),
    ("structured_outputs", read_structured_outputs, {"choice": ["yes"], "regex": "yes"}, False),
    ("structured_outputs", read_structured_outputs, {"ebnf": "yes"}, False),
    ("input", read_input, "hi", True),
    ("input", read_input, [{"role": "user", "content": "hi"}], True),
    ("input", read_input, [_THOUGHT, _ANSWER, _FLAT_CALL, _OUTPUT], True),
    ("input", read_input, "", False),
    ("input", read_input, [], False),
    ("input", read_input, [{"role": "judge", "content": "hi"}], False),
    ("input", read_input, [{"type": "item_reference", "id": "msg"}], False),
    ("input", read_input, [{**_THOUGHT, "summary": [{"type": "summary_text", "text": "hm"}]}], False),
    ("response_metadata", _RESPONSE["metadata"], {"a": "b"}, True),
    ("response_metadata", _RESPONSE["metadata"], {"a": 1}, False),
    ("response_metadata", _RESPONSE["metadata"], {"a": "x" * 513}, False),
    ("response_metadata", _RESPONSE["metadata"], {"x" * 65: "a"}, False),
    ("include", _RESPONSE["include"], ["message.output_text.logprobs"], True),
    ("include", _RESPONSE["include"], ["reasoning.encrypted_content"], False),
    ("flat_tools", read_flat_tools, [{"type": "function", **_FUNCTION}], True),
    ("flat_tools", read_flat_tools, [{"type": "function", "function": _FUNCTION}], False),
    ("flat_tools", read_flat_tools, [{"type": "web_search"}], False),
    ("flat_tool_choice", read_flat_tool_choice, {"type": "function", "name": "look_up"}, True),
    ("flat_tool_choice", read_flat_tool_choice, {"type": "allowed_tools", "mode": "auto", "tools": []}, False),
    ("flat_tool_choice", read_flat_tool_choice, {"type": "function", "function": {"name": "look_up"}}, False),
    ("response_text", _RESPONSE["text"], {"format": _FORM, "verbosity": "medium"}, True),
    ("response_text", _RESPONSE["text"], {"format": {"type": "json_schema", "json_schema": {"schema": {}}}}, False),
    ("response_text", _RESPONSE["text"], {"verbosity": "low"}, False),
    ("reasoning", _RESPONSE["reasoning"], {"context": "auto"}, True),
    ("reasoning", _RESPONSE["reasoning"], {"effort": "low"}, False),
    ("runaway", _RESPONSE["runaway"], True, True),
    ("runaway", _RESPONSE["runaway"], {"array_items": 3}, True),
    ("runaway", _RESPONSE["runaway"], {}, False),
    ("runaway", _RESPONSE["runaway"], {"array_items": 0}, False),
    ("runaway", _RESPONSE["runaway"], 3, False),
    ("on_max_tokens", _RESPONSE["on_max_tokens"], "close", True),
    ("on_max_tokens", _RESPONSE["on_max_tokens"], "stop", False),
    ("response_stream_options", _RESPONSE["stream_options"], {"include_usage": True}, True),
    ("response_stream_options", _RESPONSE["stream_options"], {"include_obfuscation": True}, False),
]


@pytest.mark.parametrize("name", NAMED_SCHEMAS)
def test_every_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(NAMED_SCHEMAS[name])


@pytest.mark.parametrize(("name", "read", "value", "is_allowed"), _CASES)
def test_a_schema_takes_what_the_server_reads(name: str, read: Read, value: Any, is_allowed: bool) -> None:
    assert jsonschema.Draft202012Validator(NAMED_SCHEMAS[name]).is_valid(value) == is_allowed
    try:
        read(value, name)
    except ApiError:
        assert not is_allowed
    else:
        assert is_allowed
