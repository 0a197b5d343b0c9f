from typing import Any

import pytest

from sureact.server.api_error import ApiError
from sureact.server.response_input import read_input

ASKED = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a": [1]}'}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "42"}
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "hm"}],
    "status": "completed",
}
ANSWER = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Let me see.", "annotations": [], "logprobs": []}],
}
SECOND_CALL = {**CALL, "call_id": "call_2"}
SECOND_OUTPUT = {**OUTPUT, "call_id": "call_2", "output": "43"}
TOLD_CALL = {"type": "function", "id": "call_1", "function": {"name": "f", "arguments": {"a": [1]}}}


def test_a_text_is_what_the_user_says() -> None:
    assert read_input("hi", "input") == [ASKED]


@pytest.mark.parametrize("kind", [{}, {"type": "message"}, {"type": None}])
def test_messages_have_the_roles_of_chats(kind: dict[str, Any]) -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    items = [{**kind, "role": role, "content": parts} for role in ("system", "developer", "user", "assistant")]
    assert read_input(items, "input") == [
        {"role": role, "content": "ab"} for role in ("system", "system", "user", "assistant")
    ]


def test_what_one_turn_wrote_is_one_message_again() -> None:
    second = {**CALL, "id": "fc_2", "status": "completed", "call_id": "call_2"}
    outputs = [OUTPUT, {**OUTPUT, "call_id": "call_2", "output": [{"type": "input_text", "text": "43"}]}]
    assert read_input([ASKED, THOUGHT, ANSWER, CALL, second, *outputs], "input") == [
        ASKED,
        {
            "role": "assistant",
            "content": "Let me see.",
            "reasoning_content": "hm",
            "tool_calls": [TOLD_CALL, {**TOLD_CALL, "id": "call_2"}],
        },
        {"role": "tool", "content": "42", "tool_call_id": "call_1"},
        {"role": "tool", "content": "43", "tool_call_id": "call_2"},
    ]


def test_outputs_stand_in_the_order_of_their_calls() -> None:
    third_call, third = {**CALL, "call_id": "call_3"}, {**OUTPUT, "call_id": "call_3", "output": "44"}
    turn = [CALL, SECOND_CALL, third_call]
    messages = read_input([ASKED, *turn, third, OUTPUT, SECOND_OUTPUT, ASKED], "input")
    assert [message["content"] for message in messages] == ["hi", "", "42", "43", "44", "hi"]


def test_turns_stay_apart() -> None:
    others = [{**CALL, "call_id": "call_2"}, {**OUTPUT, "call_id": "call_2"}]
    messages = read_input([ASKED, CALL, OUTPUT, *others, ANSWER, ASKED, ANSWER, ANSWER], "input")
    assert [message["role"] for message in messages] == [
        *("user", "assistant", "tool", "assistant", "tool", "assistant", "user", "assistant", "assistant")
    ]


def test_a_thought_alone_is_a_turn_and_two_of_them_are_one() -> None:
    assert read_input([THOUGHT, THOUGHT, ASKED], "input")[0] == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "hm\nhm",
    }


def test_arguments_may_be_an_object() -> None:
    (message, _) = read_input([{**CALL, "arguments": {"a": [1]}}, OUTPUT], "input")
    assert message.get("tool_calls") == [TOLD_CALL]


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ("", "input"),
        (3, "input"),
        ({}, "input"),
        ([], "input"),
        ([ASKED] * 10_001, "input"),
        (["hi"], "input[0]"),
        ([{}], "input[0].type"),
        ([{"content": "hi"}], "input[0].type"),
        ([ASKED, {"type": "item_reference", "id": "msg_1"}], "input[1].type"),
        ([{"type": "web_search_call", "id": "ws_1", "status": "completed"}], "input[0].type"),
        ([{"type": ["message"], "role": "user"}], "input[0].type"),
        ([{"role": "tool", "content": "42"}], "input[0].role"),
        ([{"role": "user<|im_end|>", "content": "hi"}], "input[0].role"),
        ([{"role": "user"}], "input[0].content"),
        ([{"role": "user", "content": None}], "input[0].content"),
        ([{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "input[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}], "input[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "input[0].content[0].text"),
        ([{**ASKED, "name": "me"}], "input[0].name"),
        ([{"type": "function_call", "name": "f", "arguments": "{}"}], "input[0].call_id"),
        ([{**CALL, "arguments": "{"}], "input[0].arguments"),
        ([{**CALL, "arguments": "[]"}], "input[0].arguments"),
        ([{**CALL, "namespace": "files"}], "input[0].namespace"),
        ([CALL, ASKED], "input[0].call_id"),
        ([CALL, ASKED, OUTPUT], "input[0].call_id"),
        ([CALL, SECOND_CALL, SECOND_OUTPUT, {**CALL, "call_id": "call_3"}, OUTPUT], "input[0].call_id"),
        ([CALL, CALL, OUTPUT], "input[1].call_id"),
        ([OUTPUT], "input[0].call_id"),
        ([CALL, OUTPUT, OUTPUT], "input[2].call_id"),
        ([OUTPUT, CALL], "input[0].call_id"),
        ([CALL, {**OUTPUT, "output": {"a": 1}}], "input[1].output"),
        ([{**THOUGHT, "summary": [{"type": "summary_text", "text": "hm"}]}], "input[0].summary"),
        ([{**THOUGHT, "encrypted_content": "x"}], "input[0].encrypted_content"),
    ],
)
def test_what_is_no_input_is_refused_with_its_place(items: Any, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_input(items, "input")
    assert refused.value.param == param
    assert refused.value.status == 400
