"""Faults that users report of servers like this one, and that no other test here tells by its name."""

import json
import random
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine
from tests.engine.server.test_chat_turn import CALL, THOUGHT, TOOLS

from sureact.errors import OutOfMemoryError
from sureact.execution.model_runner import PagedModelRunner
from sureact.server.request_fields import read_fields
from sureact.server.sampling_fields import CHOICE_FIELDS, SAMPLING_FIELDS, sampling_params
from sureact.tokens.stop_sequences import StopMatcher

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
QUIET = {"chat_template_kwargs": {"enable_thinking": False}}


def test_a_long_stop_does_not_cut_tags_in_half(client: Client, engine: ScriptedEngine) -> None:
    engine.say(f"{THOUGHT}Let me.\n{CALL}")
    choice = client.answer(tools=TOOLS, stop=["x" * 40, "<think", "</tool_call"])
    assert choice["message"]["reasoning_content"] == "Let me\nsee."
    assert choice["message"]["content"] == "Let me."
    assert len(choice["message"]["tool_calls"]) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_stops_hold_for_clients_that_send_and_read_token_ids(
    client: Client, engine: ScriptedEngine, stream: bool
) -> None:
    engine.say("one\nObservation: two")
    body = {"prompt": engine.encode("go"), "stop": "\nObservation", "return_token_ids": True, "max_tokens": 99}
    answer = client.events(TEXT, body)[-1] if stream else client.post(TEXT, body).json()
    (last,) = answer["choices"]
    assert engine.decode(last["token_ids"]) == "one"
    assert last["stop_reason"] == "\nObservation"


def test_a_stop_in_the_prompt_is_none_and_one_at_once_is_told(client: Client, engine: ScriptedEngine) -> None:
    engine.say("fine")
    body = {"prompt": "a\nObservation:", "stop": "\nObservation:"}
    assert client.post(TEXT, body).json()["choices"][0]["text"] == "fine"
    engine.say("\nObservation: fine")
    (choice,) = client.post(TEXT, body).json()["choices"]
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == ("", "stop", "\nObservation:")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 99))
def test_a_stop_right_after_a_thought_leaves_nothing_of_either(
    client: Client, engine: ScriptedEngine, seed: int
) -> None:
    engine.say(f"{THOUGHT}Done\nObservation: x", split=random.Random(seed))
    choice = client.answer(stop=["\nObservation"])
    assert (choice["message"]["content"], choice["stop_reason"]) == ("Done", "\nObservation")
    engine.say(f"{THOUGHT}\nObservation: x", split=random.Random(seed))
    choice = client.answer(stop=["\nObservation"])
    assert not choice["message"]["content"]
    assert choice["stop_reason"] == "\nObservation"


def test_many_stops_cost_nothing_to_prepare() -> None:
    start = time.thread_time()
    for _ in range(20):
        body = {"stop": ["\nObservation:" + "x" * size for size in range(64)]}
        params = sampling_params(read_fields(body, (*SAMPLING_FIELDS, *CHOICE_FIELDS)), max_tokens=9, logprobs=None)
        StopMatcher(params.stop_texts, params.stop_token_ids, min_tokens=0)
    assert (time.thread_time() - start) / 20 < 0.05


@pytest.mark.parametrize("text", ["test/{test1,test2", '}]}"', '{"name": "get_time", "arguments": {}}', "\\"])
def test_braces_quotes_and_tags_in_arguments_are_data(client: Client, engine: ScriptedEngine, text: str) -> None:
    arguments = json.dumps({"city": text})
    engine.say(CALL.replace('{"city": "Paris"}', arguments))
    (call,) = client.answer(tools=TOOLS)["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": text}


def test_two_objects_in_one_block_are_calls_or_nothing(client: Client, engine: ScriptedEngine) -> None:
    one = CALL.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>")
    engine.say(f"<tool_call>\n{one}\n{one.replace('Paris', 'Rome')}\n</tool_call>")
    choice = client.answer(tools=TOOLS, max_tokens=200)
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"city": "Paris"}
    assert all(call["function"]["name"] == "get_weather" for call in choice["message"]["tool_calls"])


def test_a_required_key_has_its_exact_name(client: Client, engine: ScriptedEngine) -> None:
    engine.say('{"!": "x", "wha": "y", "what": "z"}')
    schema = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {**schema, "additionalProperties": False}}}
    assert list(json.loads(client.answer(response_format=form, max_tokens=200)["message"]["content"])) == ["what"]


def test_a_cache_salt_keeps_apart_what_is_cached(client: Client, engine: ScriptedEngine) -> None:
    engine.say("ok")
    content = "Of one salt alone. " * 40

    def cached(salt: str) -> int:
        return client.chat(content, cache_salt=salt).json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert [cached(salt) > 0 for salt in ("of mine", "of yours", "of mine", "of yours")] == [False, False, True, True]


def test_a_model_that_loves_newlines_ends_its_json(client: Client, engine: ScriptedEngine) -> None:
    engine.say('{"a":' + "\n" * 200)
    schema = {"properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", **schema}}}
    choice = client.answer(response_format=form, max_tokens=40)
    assert choice["finish_reason"] == "stop"
    assert json.loads(choice["message"]["content"])["a"] in (True, False)
    assert "\n" not in choice["message"]["content"]


def test_each_turn_finds_all_earlier_ones_in_the_cache(client: Client, engine: ScriptedEngine) -> None:
    engine.say("ok")
    messages: list[dict[str, Any]] = []
    before = 0
    for turn in range(4):
        messages.append({"role": "user", "content": f"turn {turn}: " + "tell me more " * 30})
        answer = client.post(CHAT, {"messages": messages, **QUIET, "cache_salt": "turns"}).json()
        usage = answer["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] >= (before - 20) // 128 * 128
        before = usage["prompt_tokens"]
        messages.append(answer["choices"][0]["message"])


@pytest.mark.parametrize("num_tokens", [127, 128, 129, 256])
def test_a_prompt_that_is_cached_whole_is_answered_as_before(client: Client, num_tokens: int) -> None:
    body = {"prompt": [97] * num_tokens, "max_tokens": 8, "return_token_ids": True, "cache_salt": str(num_tokens)}
    first, second = (client.post(TEXT, body).json() for _ in range(2))
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert 0 < num_tokens - second["usage"]["prompt_tokens_details"]["cached_tokens"] <= 128
    assert first["choices"] == second["choices"]


def test_a_request_that_memory_ends_leaves_the_server_alive(
    client: Client, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OutOfMemoryError("no memory for a pass")

    engine.say("ok")
    with monkeypatch.context() as patch:
        patch.setattr(PagedModelRunner, "run", fail)
        response = client.chat()
        assert (response.status_code, response.json()["error"]["code"]) == (503, "no_memory")
        assert response.headers["retry-after"]
    assert client.answer()["message"]["content"] == "ok"


@pytest.mark.model
def test_a_real_model_calls_tools_in_every_mode(model_folder: Any) -> None:
    from sureact.async_engine import AsyncEngine
    from sureact.engine import Engine
    from sureact.server.app import create_app
    from sureact.server.server_config import ServerConfig

    with Engine(str(model_folder), quantization="int8", kv_cache_gb=0.2) as real:
        client = Client(create_app(AsyncEngine.of(real), ServerConfig()))
        for choice in ("auto", "required", {"type": "function", "function": {"name": "get_weather"}}):
            body = {"tools": TOOLS, "tool_choice": choice, "max_tokens": 80}
            answer = client.answer("What is the weather in Paris? Use a tool.", **body)
            calls = answer["message"]["tool_calls"]
            assert answer["finish_reason"] == "tool_calls"
            assert calls[0]["function"]["name"] == "get_weather"
            assert "Paris" in json.loads(calls[0]["function"]["arguments"])["city"]
        answer = client.answer("Say hello.", tools=TOOLS, tool_choice="none", max_tokens=20)
        assert answer["message"]["content"]
