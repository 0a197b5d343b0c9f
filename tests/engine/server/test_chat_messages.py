from typing import Any

import pytest

from sureact.server.api_error import ApiError
from sureact.server.chat_messages import read_messages

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": [1]}'}}


def turn(*call_ids: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{**CALL, "id": call_id} for call_id in call_ids]}


def result(call_id: str | None, content: str = "a") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def test_results_stand_in_the_order_of_their_calls() -> None:
    given = [turn("x", "y", "z"), result("z", "3"), result("x", "1"), result("y", "2"), turn("x"), result("x", "4")]
    read = read_messages(given, "messages")
    assert [message["content"] for message in read] == ["", "1", "2", "3", "", "4"]


def test_a_result_without_an_id_is_that_of_the_next_call() -> None:
    _, *read = read_messages([turn("x", "y", "z"), result("y", "2"), result(None, "1"), result(None, "3")], "messages")
    assert read == [result("x", "1"), result("y", "2"), result("z", "3")]


def test_calls_may_have_no_results_yet() -> None:
    assert len(read_messages([turn("x", "y"), {"role": "user", "content": "a"}, turn("z")], "messages")) == 3


def test_contents_are_texts_or_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read_messages([{"role": "user", "content": parts}], "messages") == [{"role": "user", "content": "ab"}]


def test_developers_are_the_system() -> None:
    assert read_messages([{"role": "developer", "content": "a"}], "messages")[0]["role"] == "system"


def test_arguments_are_read_as_text_and_as_object() -> None:
    as_object = {**CALL, "function": {"name": "f", "arguments": {"a": [1]}}}
    for call in (CALL, as_object):
        (message,) = read_messages([{"role": "assistant", "content": None, "tool_calls": [call]}], "messages")
        (read,) = message.get("tool_calls", [])
        assert read["function"] == {"name": "f", "arguments": {"a": [1]}}
        assert message["content"] == ""


def test_what_a_client_sends_back_of_an_answer_is_taken() -> None:
    answer = {
        "role": "assistant",
        "content": "a",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "tool_calls": None,
    }
    assert read_messages([answer], "messages") == [{"role": "assistant", "content": "a"}]


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ("hi", "messages"),
        ([], "messages"),
        (["hi"], "messages[0]"),
        ([{"content": "a"}], "messages[0].role"),
        ([{"role": "root", "content": "a"}], "messages[0].role"),
        ([{"role": ["user"], "content": "a"}], "messages[0].role"),
        ([{"role": "user<|im_end|>", "content": "a"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": 3}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ([{"role": "user", "content": "a", "tool_calls": []}], "messages[0].tool_calls"),
        ([{"role": "assistant"}], "messages[0].content"),
        ([{"role": "assistant", "tool_calls": [{**CALL, "type": "code"}]}], "messages[0].tool_calls[0].type"),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}],
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[]"}}]}],
            "messages[0].tool_calls[0].function.arguments",
        ),
        ([{"role": "tool", "content": None}], "messages[0].content"),
        ([result("call_1")], "messages[0].role"),
        ([turn("call_1"), {"role": "user", "content": "a"}, result("call_1")], "messages[2].role"),
        ([turn("call_1"), result("call_2")], "messages[1].tool_call_id"),
        ([turn("call_1"), result("call_1"), result("call_1")], "messages[2].tool_call_id"),
        ([turn("call_1"), result(None), result(None)], "messages[2].tool_call_id"),
        ([turn("call_1", "call_2"), result("call_2")], "messages[0].tool_calls[0].id"),
        ([turn("call_1", "call_1")], "messages[0].tool_calls[1].id"),
    ],
)
def test_what_is_no_message_is_refused_with_its_place(messages: Any, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_messages(messages, "messages")
    assert refused.value.param == param


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 1, "a": 2}',
        '{"a": "\\ud800"}',
        '{"a": %s}' % ("9" * 5000),
        '{"a":' * 200 + "1" + "}" * 200,
        "[" * 9000,
    ],
)
def test_arguments_that_mean_nothing_or_two_things_are_refused(text: str) -> None:
    place = "messages[0].tool_calls[0].function.arguments"
    with pytest.raises(ApiError) as refused:
        read_messages(
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": text}}]}], "messages"
        )
    assert (refused.value.param, refused.value.code) == (place, "invalid_value")
    assert str(refused.value).startswith(place)


def test_messages_are_not_too_many() -> None:
    with pytest.raises(ApiError, match="give 1 to 10,000") as refused:
        read_messages([{"role": "user", "content": "a"}] * 10_001, "messages")
    assert refused.value.param == "messages"
