import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.server.conftest import Client
from tests.engine.server.http_servers import RunningServer
from tests.engine.server.scripted_engine import ScriptedEngine
from tests.engine.server.test_chat_turn import CALL, THOUGHT
from tests.engine.server.test_chat_turn import TOOLS as CHAT_TOOLS
from tests.engine.server.test_disconnects import LONG, ask
from tests.engine.server.test_streaming import TEXTS, calls

from sureact.constraints.json_schema import JsonSchemaConstraint
from sureact.errors import InternalError
from sureact.server.response_fields import LOGPROBS

PATH = "/v1/responses"
FUNCTIONS: list[Any] = [tool["function"] for tool in CHAT_TOOLS]
TOOLS = [{"type": "function", **function} for function in FUNCTIONS]
OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
QUIET = {"chat_template_kwargs": {"enable_thinking": False}}
FORM = {"format": {"type": "json_schema", "name": "n", "schema": OBJECT}}


def answer(client: Client, **body: Any) -> dict[str, Any]:
    """A response that must succeed."""
    response = client.post(PATH, {"input": "hi", **body})
    assert response.status_code == 200, response.text
    return response.json()


def read_named_events(text: str) -> list[dict[str, Any]]:
    """Read a stream whose events are named by their type, and that ends with the last of them."""
    events: list[dict[str, Any]] = []
    for block in text.strip().split("\n\n"):
        if block.startswith(":"):
            continue
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def events_of(client: Client, **body: Any) -> list[dict[str, Any]]:
    response = client.post(PATH, {"input": "hi", "stream": True, **body})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return read_named_events(response.text)


def added_up(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add up the events to items as a client does that reads nothing but deltas."""
    items: list[dict[str, Any]] = []
    for event in events:
        match event["type"].removeprefix("response."):
            case "output_item.added":
                assert event["output_index"] == len(items)
                items.append(event["item"])
            case "content_part.added":
                items[-1]["content"].append(event["part"])
            case "output_text.delta":
                part = items[event["output_index"]]["content"][event["content_index"]]
                part["text"] += event["delta"]
                part["logprobs"] += event["logprobs"]
            case "reasoning_text.delta":
                items[event["output_index"]]["content"][event["content_index"]]["text"] += event["delta"]
            case "function_call_arguments.delta":
                items[event["output_index"]]["arguments"] += event["delta"]
            case "output_item.done":
                items[-1]["status"] = event["item"]["status"]
            case _:
                pass
        if "item_id" in event:
            assert event["item_id"] == items[event["output_index"]]["id"]
    return items


def without_names(response: dict[str, Any]) -> dict[str, Any]:
    """Return a response without what differs between two of them that say the same."""
    cleared = json.loads(json.dumps(response))
    for name in ("id", "created_at", "completed_at"):
        del cleared[name]
    for item in cleared["output"]:
        del item["id"]
        item.pop("call_id", None)
    del cleared["usage"]["input_tokens_details"]
    return cleared


def both(client: Client, engine: ScriptedEngine, script: str, seed: int, **body: Any) -> dict[str, Any]:
    """Ask the same at once and as a stream, with the same tokens; return the response, which must be the same."""
    asked = {"max_output_tokens": 400, **body}
    engine.say(script, split=random.Random(seed))
    whole = answer(client, **asked)
    engine.say(script, split=random.Random(seed))
    events = events_of(client, **asked)
    last = events[-1]["response"]
    assert events[-1]["type"] == f"response.{last['status']}"
    assert added_up(events) == last["output"]
    assert without_names(last) == without_names(whole)
    return last


PROPERTY = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])


@PROPERTY
@given(TEXTS, TEXTS, st.booleans(), st.integers(0, 99))
def test_streamed_texts_add_up(
    client: Client, engine: ScriptedEngine, thought: str, text: str, has_logprobs: bool, seed: int
) -> None:
    script = (f"<think>\n{thought}</think>\n\n" if thought else "") + text
    options: dict[str, Any] = {"include": [LOGPROBS], "top_logprobs": 1} if has_logprobs else {}
    output = both(client, engine, script, seed, **options)["output"]
    texts = {item["type"]: item["content"][0]["text"] for item in output}
    assert texts.get("message", "") == text
    assert texts.get("reasoning", "") == thought.strip()
    entries = [entry for item in output for entry in item["content"][0].get("logprobs", [])]
    assert bool(entries) == (has_logprobs and bool(text))


@PROPERTY
@given(TEXTS, calls(), st.integers(0, 99), st.sampled_from(["auto", "required"]))
def test_streamed_calls_add_up(
    client: Client, engine: ScriptedEngine, text: str, expected: list[tuple[str, str]], seed: int, choice: str
) -> None:
    written = "\n".join(
        f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>' for name, arguments in expected
    )
    text = text if choice == "auto" else ""
    response = both(client, engine, text + written, seed, tools=TOOLS, tool_choice=choice)
    made = [item for item in response["output"] if item["type"] == "function_call"]
    assert [(call["name"], call["arguments"]) for call in made] == expected
    assert len({call["call_id"] for call in made}) == len(expected)
    said = [item["content"][0]["text"] for item in response["output"] if item["type"] == "message"]
    assert said == ([text.rstrip()] if text.rstrip() else [])
    assert response["status"] == "completed"


@pytest.mark.parametrize("max_tokens", range(1, 60, 3))
def test_streams_that_the_budget_cuts_add_up(client: Client, engine: ScriptedEngine, max_tokens: int) -> None:
    script = f"<think>\nhm\n</think>\n\nLet me.\n{CALL.replace('Paris', 'é}')}"
    response = both(client, engine, script, max_tokens, max_output_tokens=max_tokens, tools=TOOLS)
    is_cut = response["status"] == "incomplete"
    assert response["output"][-1]["status"] == ("incomplete" if is_cut else "completed")
    assert all(item["status"] == "completed" for item in response["output"][:-1])
    assert response["usage"]["output_tokens"] <= max_tokens


def test_an_answer_in_a_form_is_constrained(client: Client, engine: ScriptedEngine) -> None:
    engine.say('{"a": "é"}')
    (message,) = answer(client, text=FORM)["output"]
    assert json.loads(message["content"][0]["text"]) == {"a": "é"}
    (message,) = answer(client, structured_outputs={"choice": ["yes", "no"]})["output"]
    assert message["content"][0]["text"] in ("yes", "no")


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({"type": "function", "name": "get_time"}, ["get_time"]),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_time"}]},
            ["get_time"],
        ),
        ("none", []),
    ],
)
def test_a_choice_holds_whatever_the_model_would_say(
    client: Client, engine: ScriptedEngine, choice: Any, names: list[str]
) -> None:
    engine.say(CALL if names else "Rain.")
    response = answer(client, tools=TOOLS, tool_choice=choice, max_output_tokens=200)
    made = [item for item in response["output"] if item["type"] == "function_call"]
    assert [call["name"] for call in made[:1]] == names
    assert response["tool_choice"] == choice


def test_a_turn_that_comes_back_is_the_prompt_that_was(client: Client, engine: ScriptedEngine) -> None:
    """The same conversation as a chat has the same prompt, so it also finds the same in the cache."""
    engine.say(f"{THOUGHT}Let me see.\n{CALL}")
    first = answer(client, tools=TOOLS)
    call = first["output"][-1]
    engine.say("It rains.")
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
    asked = [{"role": "user", "content": "hi"}, *first["output"], output]
    second = answer(client, input=asked, tools=TOOLS, instructions="be brief")
    assert second["output"][0]["content"][0]["text"] == "It rains."
    function = {"name": call["name"], "arguments": call["arguments"]}
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "reasoning_content": "Let me\nsee.",
            "tool_calls": [{"id": call["call_id"], "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call["call_id"], "content": "rain"},
    ]
    chat = client.post("/v1/chat/completions", {"messages": messages, "tools": CHAT_TOOLS}).json()
    assert chat["usage"]["prompt_tokens"] == second["usage"]["input_tokens"]
    assert chat["usage"]["prompt_tokens_details"]["cached_tokens"] > second["usage"]["input_tokens"] - 128


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("body", "status", "param", "code"),
    [
        ({"input": ""}, 400, "input", "invalid_value"),
        ({"input": []}, 400, "input", "invalid_value"),
        ({"model": "gpt"}, 404, "model", "model_not_found"),
        ({"max_output_tokens": 9999}, 400, "input", "context_length_exceeded"),
        ({"stop_token_ids": [9999]}, 400, "stop_token_ids", "invalid_value"),
        ({"tools": TOOLS, "text": FORM}, 400, "text.format.schema", "unsupported_value"),
        ({"text": FORM, "structured_outputs": {"regex": "a"}}, 400, "structured_outputs.regex", "invalid_value"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "x"}}, 400, "tool_choice.name", "invalid_value"),
        (
            {"tools": [{**TOOLS[0], "parameters": {"type": "object", "properties": {"a": {"$ref": "#/x"}}}}]},
            400,
            "tools[0].parameters",
            "unsupported_schema",
        ),
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {"enum": list(range(100_000))}}}},
            400,
            "text.format.schema",
            "constraint_too_large",
        ),
        ({"previous_response_id": "resp_1"}, 400, "previous_response_id", "unsupported_parameter"),
        ({"store": True}, 400, "store", "unsupported_value"),
    ],
)
def test_what_is_refused_has_its_status_streamed_or_not(
    client: Client, body: dict[str, Any], status: int, param: str, code: str, stream: bool
) -> None:
    response = client.post(PATH, {"input": "hi", **body, "stream": stream})
    error = response.json()["error"]
    assert (response.status_code, error["param"], error["code"]) == (status, param, code)


def test_the_words_of_errors_are_the_fields_of_this_route(client: Client) -> None:
    message = client.post(PATH, {"input": "hi", "max_output_tokens": 9999}).json()["error"]["message"]
    assert "max_output_tokens" in message
    assert "messages" not in message


def test_an_error_inside_a_stream_fails_the_response(
    client: Client, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object, text: str) -> None:
        raise InternalError("in /opt/secret")

    monkeypatch.setattr(JsonSchemaConstraint, "parse", refuse)
    engine.say('{"a": "b"}')
    *_, error, failed = events_of(client, text=FORM)
    assert (error["type"], error["code"]) == ("error", "internal_error")
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"]["code"] == "server_error"
    assert "/opt" not in str(failed)
    assert client.post(PATH, {"input": "hi", "text": FORM}).status_code == 500


def test_a_time_limit_fails_the_response(engine: ScriptedEngine, run_server: Callable[..., RunningServer]) -> None:
    server = run_server(request_timeout_s=0.3)
    options = {name: value for name, value in LONG.items() if name not in ("messages", "max_tokens")}
    body = {"input": "hi", **options, "stream": True, **QUIET}
    connection = ask(server.address, PATH, body)
    data = b""
    while piece := connection.recv(65536):
        data += piece
        if b"response.failed" in data and data.endswith(b"0\r\n\r\n"):
            break
    connection.close()
    assert b'"code": "request_timeout"' in data
    assert b"event: response.failed" in data
    assert b"[DONE]" not in data


def test_a_response_needs_a_key_and_a_seat(
    engine: ScriptedEngine, run_server: Callable[..., RunningServer], tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("a:a-key-of-team-a-0001 running=1 queued=0")
    address = run_server(api_keys=str(keys)).address + PATH
    client = httpx.Client(headers={"authorization": "Bearer a-key-of-team-a-0001"})
    assert httpx.post(address, json={"input": "hi"}).status_code == 401
    body = {"input": "hi", "stream": True, "ignore_eos": True, "max_output_tokens": 3500}
    with client, client.stream("POST", address, json={**body, "temperature": 1, **QUIET}) as running:
        lines = running.iter_lines()  # forgotten, it would close the connection, and the response would end
        assert next(lines) == "event: response.created"
        refused = client.post(address, json={"input": "hi"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_requests")


def test_requests_count_as_those_of_chats(client: Client, engine: ScriptedEngine) -> None:
    engine.say("Hello")
    answer(client, include=[LOGPROBS])
    text = client.get("/metrics").text
    assert 'vllm:request_success_total{finished_reason="stop",model_name="tiny"} 1.0' in text
    assert 'vllm:e2e_request_latency_seconds_count{model_name="tiny"} 1.0' in text


def test_the_request_of_the_page_is_answered(client: Client, engine: ScriptedEngine) -> None:
    page = (Path(__file__).parents[3] / "docs" / "server.md").read_text(encoding="utf-8")
    (body,) = re.findall(r"/v1/responses -H 'content-type: application/json' -d '(.*?)'\n```", page, re.DOTALL)
    engine.say("It rains.")
    response = client.post(PATH, body.encode())
    assert response.json()["output"][0]["content"][0]["text"] == "It rains."


def test_a_cache_salt_keeps_apart(client: Client, engine: ScriptedEngine) -> None:
    engine.say("ok")
    asked = {"input": "tell me " * 60}
    for salt, cached in (("a", False), ("a", True), ("b", False)):
        usage = answer(client, **asked, cache_salt=salt)["usage"]
        assert bool(usage["input_tokens_details"]["cached_tokens"]) == cached
