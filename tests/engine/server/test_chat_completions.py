from typing import Any

import pytest
from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine
from tests.engine.server.test_chat_turn import CALL, TOOLS

PATH = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]


def test_an_answer_has_what_the_protocol_asks_for(client: Client, engine: ScriptedEngine) -> None:
    engine.say("Hello")
    answer = client.post(PATH, {"model": "tiny", "messages": HI}).json()
    assert set(answer) == {"id", "object", "created", "model", "choices", "usage"}
    assert (answer["object"], answer["model"]) == ("chat.completion", "tiny")
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens_details"]["cached_tokens"] <= usage["prompt_tokens"]


def test_several_answers_are_drawn_each_with_its_own_seed(client: Client) -> None:
    body = {"messages": HI, "n": 3, "temperature": 1, "seed": 5, "max_tokens": 5}
    first, second = (client.post(PATH, body).json()["choices"] for _ in range(2))
    assert [c["message"]["content"] for c in first] == [c["message"]["content"] for c in second]
    assert [c["index"] for c in first] == [0, 1, 2]
    assert len({c["message"]["content"] for c in first}) > 1


def test_reasoning_may_be_left_out(client: Client, engine: ScriptedEngine) -> None:
    engine.say("<think>\nhm\n</think>\n\nHello")
    assert client.answer()["message"]["reasoning_content"] == "hm"
    assert "reasoning_content" not in client.answer(include_reasoning=False)["message"]


def test_log_probabilities_are_those_of_the_content(client: Client, engine: ScriptedEngine) -> None:
    engine.say("<think>\nhm\n</think>\n\nHello thereXQZ")
    for tools in ([], TOOLS):
        choice = client.answer(logprobs=True, top_logprobs=3, stop=["XQZ"], tools=tools)
        entries = choice["logprobs"]["content"]
        assert "".join(entry["token"] for entry in entries) == "Hello there"
        assert all(len(entry["top_logprobs"]) == 3 for entry in entries)


def test_a_continued_message_goes_on(client: Client, engine: ScriptedEngine) -> None:
    engine.say(" there")
    messages = [*HI, {"role": "assistant", "content": "Hello"}]
    answer = client.post(PATH, {"messages": messages, "continue_final_message": True}).json()
    assert answer["choices"][0]["message"]["content"] == " there"


def test_the_history_may_hold_calls_in_either_spelling(client: Client, engine: ScriptedEngine) -> None:
    engine.say("ok")
    prompts: list[list[int]] = []
    for arguments in ('{"city": "Paris"}', {"city": "Paris"}):
        call = {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
        messages = [
            *HI,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "rain"},
        ]
        answer = client.post(PATH, {"messages": messages, "tools": TOOLS, "return_token_ids": True}).json()
        prompts.append(answer["prompt_token_ids"])
    assert prompts[0] == prompts[1]


def test_a_second_turn_finds_the_first_in_the_cache(client: Client, engine: ScriptedEngine) -> None:
    engine.say("ok")
    messages = [{"role": "user", "content": "tell me " * 60}]
    client.post(PATH, {"messages": messages})
    answer = client.post(PATH, {"messages": [*messages, {"role": "assistant", "content": "ok"}, *HI]}).json()
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] >= 128
    other = client.post(PATH, {"messages": messages, "cache_salt": "mine"}).json()
    assert other["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


@pytest.mark.parametrize(
    ("body", "status", "param", "code"),
    [
        ({}, 400, "messages", "missing_parameter"),
        ({"messages": HI, "model": "gpt"}, 404, "model", "model_not_found"),
        ({"messages": HI, "frequency": 1}, 400, "frequency", "unknown_parameter"),
        ({"messages": HI, "reasoning_effort": "high"}, 400, "reasoning_effort", "unsupported_value"),
        ({"messages": HI, "max_tokens": 9999}, 400, "messages", "context_length_exceeded"),
        ({"messages": HI, "stop_token_ids": [9999]}, 400, "stop_token_ids", "invalid_value"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_what_is_refused_has_its_status_streamed_or_not(
    client: Client, body: dict[str, Any], status: int, param: str, code: str, stream: bool
) -> None:
    response = client.post(PATH, {**body, "stream": stream})
    error = response.json()["error"]
    assert (response.status_code, error["param"], error["code"]) == (status, param, code)


def test_neutral_fields_of_clients_are_accepted(client: Client, engine: ScriptedEngine) -> None:
    engine.say("ok")
    client.answer(user="u", metadata={"a": "b"}, store=False, frequency_penalty=0, logit_bias={}, n=1, tools=None)


def test_a_call_streams_and_comes_whole(client: Client, engine: ScriptedEngine) -> None:
    engine.say(CALL)
    body: dict[str, Any] = {"messages": HI, "tools": TOOLS}
    (call,) = client.post(PATH, body).json()["choices"][0]["message"]["tool_calls"]
    deltas = [event["choices"][0]["delta"] for event in client.events(PATH, body)]
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls", [])]
    assert pieces[0]["id"].startswith("call_")
    assert all("id" not in piece for piece in pieces[1:])
    assert "".join(piece["function"]["arguments"] for piece in pieces) == call["function"]["arguments"]
