from typing import Any

import pytest

from sureact.server.api_error import ApiError
from sureact.server.chat_fields import CHAT_FIELDS, wanted_thinking
from sureact.server.request_fields import read_fields
from sureact.server.response_fields import LOGPROBS, RESPONSE_FIELDS, chat_values

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}


def read(**body: Any) -> dict[str, Any]:
    return chat_values(read_fields({"input": "hi", **body}, RESPONSE_FIELDS))


def read_chat(**body: Any) -> dict[str, Any]:
    """Return the values of a chat's fields, but for those that a chat refuses, such as `input`."""
    values = read_fields(body, CHAT_FIELDS)
    return {field.name: values[field.name] for field in CHAT_FIELDS if field.kind != "refused"}


def test_no_field_is_named_twice() -> None:
    names = [field.name for field in RESPONSE_FIELDS]
    assert len(names) == len(set(names))


def test_nothing_given_is_what_a_chat_gives() -> None:
    chat = read_chat(messages=[{"role": "user", "content": "hi"}])
    assert {name: value for name, value in read().items() if name in chat} == chat


def test_what_is_given_is_what_a_chat_would_give() -> None:
    same = {"temperature": 0.5, "seed": 1, "stop": ["x"], "parallel_tool_calls": False, "thinking_token_budget": 4}
    function = {"name": "f", "description": "d", "parameters": PARAMETERS}
    chat = read_chat(
        messages=[{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        tools=[{"type": "function", "function": function}],
        tool_choice="required",
        max_tokens=5,
        logprobs=True,
        top_logprobs=2,
        **same,
    )
    given = read(
        instructions="be brief",
        tools=[{"type": "function", **function}],
        tool_choice="required",
        max_output_tokens=5,
        include=[LOGPROBS],
        top_logprobs=2,
        **same,
    )
    assert {name: value for name, value in given.items() if name in chat} == chat


def test_a_format_is_a_constraint() -> None:
    form = {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}
    asked = read(text={"format": form, "verbosity": "medium"})["response_format"]
    assert asked.param == "text.format.schema"
    assert read(text={"format": {"type": "text"}})["response_format"] is None
    assert read(text={})["response_format"] is None


def test_what_changes_nothing_is_accepted() -> None:
    read(
        user="u",
        metadata={"a": "b"},
        store=False,
        background=False,
        truncation="disabled",
        service_tier="auto",
        previous_response_id=None,
        conversation=None,
        reasoning={"effort": None, "summary": None, "context": "auto"},
        stream_options={"include_obfuscation": False},
        instructions=None,
        include=None,
        top_logprobs=0,
        max_tool_calls=None,
    )


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"input": None}, "input", "missing_parameter"),
        ({"messages": []}, "messages", "unsupported_parameter"),
        ({"max_tokens": 5}, "max_tokens", "unsupported_parameter"),
        ({"logprobs": True}, "logprobs", "unsupported_parameter"),
        ({"response_format": {"type": "text"}}, "response_format", "unsupported_parameter"),
        ({"reasoning_effort": "none"}, "reasoning_effort", "unsupported_parameter"),
        ({"n": 2}, "n", "unknown_parameter"),
        ({"store": True}, "store", "unsupported_value"),
        ({"background": True}, "background", "unsupported_value"),
        ({"truncation": "auto"}, "truncation", "unsupported_value"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "unsupported_parameter"),
        ({"conversation": "conv_1"}, "conversation", "unsupported_parameter"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt", "unsupported_parameter"),
        ({"max_tool_calls": 1}, "max_tool_calls", "unsupported_parameter"),
        ({"context_management": []}, "context_management", "unsupported_parameter"),
        ({"moderation": {"model": "m"}}, "moderation", "unsupported_parameter"),
        ({"reasoning": {"effort": "low"}}, "reasoning.effort", "unsupported_value"),
        ({"reasoning": {"summary": "auto"}}, "reasoning.summary", "unsupported_parameter"),
        ({"reasoning": {"depth": 1}}, "reasoning.depth", "unknown_parameter"),
        ({"text": {"verbosity": "low"}}, "text.verbosity", "unsupported_value"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type", "invalid_value"),
        ({"include": ["file_search_call.results"]}, "include[0]", "invalid_value"),
        ({"include": [LOGPROBS, "reasoning.encrypted_content"]}, "include[1]", "invalid_value"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation", "unsupported_value"),
        ({"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "invalid_value"),
        ({"tools": [{"type": "mcp", "server_label": "x", "server_url": "y"}]}, "tools[0].type", "invalid_value"),
        ({"metadata": []}, "metadata", "invalid_value"),
        ({"metadata": {str(number): "" for number in range(17)}}, "metadata", "invalid_value"),
        ({"metadata": {"a": 1}}, "metadata.a", "invalid_value"),
        ({"metadata": {"a": "x" * 513}}, "metadata", "invalid_value"),
        ({"metadata": {"x" * 65: "a"}}, "metadata", "invalid_value"),
        ({"instructions": ["be brief"]}, "instructions", "invalid_value"),
    ],
)
def test_what_is_not_honored_is_refused_by_name(body: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(ApiError) as refused:
        read(**body)
    assert (refused.value.param, refused.value.code) == (param, code)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("max_tokens", "`max_output_tokens`"),
        ("logprobs", "`include`"),
        ("messages", "`input`"),
        ("reasoning_effort", "`effort`"),
    ],
)
def test_a_chats_field_is_refused_with_the_name_it_has_here(name: str, instead: str) -> None:
    with pytest.raises(ApiError, match=instead):
        read(**{name: 1})


def test_no_effort_of_reasoning_is_no_budget_for_it() -> None:
    assert wanted_thinking(read(reasoning={"effort": "none"})) == 0
    assert wanted_thinking(read(reasoning={})) is None
