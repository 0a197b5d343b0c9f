"""What a stream says adds up to what the same request says at once, however the text falls into tokens."""

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine
from tests.engine.server.test_chat_turn import CALL, TOOLS

PATH = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]
TEXTS = st.text(st.sampled_from("abc \n`{}\"'<|>é你😀\u200d:,"), max_size=30)
CITIES = st.text('a{}[]"\\\n é😀</tool_call>', max_size=12)


@st.composite
def calls(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Names and arguments of one or two calls, which are not the same."""
    kinds = draw(st.lists(st.booleans(), min_size=1, max_size=2))
    cities = [json.dumps({"city": draw(CITIES)}, ensure_ascii=False) for _ in kinds]
    made = [("get_weather", city) if kind else ("get_time", "{}") for kind, city in zip(kinds, cities, strict=True)]
    return list(dict.fromkeys(made))


def message_of(events: list[Any]) -> dict[str, Any]:
    """Add up the deltas of the first choice as a client does."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": [], "logprobs": []}
    for event in events:
        for choice in event["choices"]:
            delta = choice["delta"]
            for name in ("content", "reasoning_content"):
                message[name] += delta.get(name) or ""
            message["logprobs"] += (choice["logprobs"] or {}).get("content", [])
            for piece in delta.get("tool_calls", []):
                if piece["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append(
                        {"id": piece["id"], "name": piece["function"]["name"], "arguments": ""}
                    )
                else:
                    assert "id" not in piece
                    assert "name" not in piece["function"]
                message["tool_calls"][piece["index"]]["arguments"] += piece["function"]["arguments"]
            message["finish_reason"] = choice["finish_reason"]
            message["stop_reason"] = choice.get("stop_reason")
            message["token_ids"] = choice.get("token_ids")
    return message


def whole_message(choice: dict[str, Any]) -> dict[str, Any]:
    message = choice["message"]
    return {
        "content": message["content"] or "",
        "reasoning_content": message.get("reasoning_content", ""),
        "tool_calls": [call["function"] for call in message.get("tool_calls", [])],
        "logprobs": (choice["logprobs"] or {}).get("content", []),
        "finish_reason": choice["finish_reason"],
        "stop_reason": choice["stop_reason"],
        "token_ids": choice.get("token_ids"),
    }


def both(client: Client, engine: ScriptedEngine, script: str, seed: int, **body: Any) -> dict[str, Any]:
    """Ask the same at once and as a stream, with the same tokens; return the message, which must be the same."""
    asked = {"messages": HI, "max_tokens": 400, "return_token_ids": True, **body}
    engine.say(script, split=random.Random(seed))
    whole = whole_message(client.post(PATH, asked).json()["choices"][0])
    engine.say(script, split=random.Random(seed))
    events = client.events(PATH, {**asked, "stream_options": {"include_usage": True}})
    streamed = message_of(events)
    for call in streamed["tool_calls"]:
        assert call.pop("id").startswith("call_")
    assert streamed == whole
    assert len({(event["id"], event["created"]) for event in events}) == 1
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] >= len(whole["logprobs"])
    return streamed


PROPERTY = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])


@PROPERTY
@given(
    TEXTS, TEXTS, st.lists(st.text("ab \n:é", min_size=1, max_size=3), max_size=2), st.booleans(), st.integers(0, 99)
)
def test_texts(
    client: Client, engine: ScriptedEngine, thought: str, text: str, stops: list[str], keeps_stop: bool, seed: int
) -> None:
    script = (f"<think>\n{thought}</think>\n\n" if thought else "") + text
    message = both(
        client, engine, script, seed, stop=stops, include_stop_str_in_output=keeps_stop, logprobs=True, top_logprobs=1
    )
    ends = [text.index(stop) + len(stop) for stop in stops if stop in text]
    shown = text[: min(ends)] if ends else text
    if keeps_stop or not ends:
        assert message["content"] == shown
    else:
        assert any(message["content"] + stop == shown for stop in stops)
    assert message["reasoning_content"] == thought.strip()
    assert "".join(entry["token"] for entry in message["logprobs"]) in message["content"] or "\ufffd" in str(message)


@PROPERTY
@given(TEXTS, calls(), st.integers(0, 99), st.sampled_from(["auto", "required"]))
def test_calls(
    client: Client, engine: ScriptedEngine, text: str, expected: list[tuple[str, str]], seed: int, choice: str
) -> None:
    written = "\n".join(
        f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>' for name, arguments in expected
    )
    text = text if choice == "auto" else ""
    message = both(client, engine, text + written, seed, tools=TOOLS, tool_choice=choice)
    assert [(call["name"], call["arguments"]) for call in message["tool_calls"]] == expected
    assert message["content"] == text.rstrip()
    assert message["finish_reason"] == "tool_calls"


@PROPERTY
@given(st.text('ab{}"\\\né😀', max_size=20), st.integers(0, 99))
def test_constrained_texts(client: Client, engine: ScriptedEngine, value: str, seed: int) -> None:
    script = json.dumps({"a": value}, ensure_ascii=False)
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    assert both(client, engine, script, seed, response_format=form)["content"] == script


@pytest.mark.parametrize("max_tokens", range(1, 60, 3))
def test_texts_that_the_budget_cuts(client: Client, engine: ScriptedEngine, max_tokens: int) -> None:
    script = f"<think>\nhm\n</think>\n\nLet me.\n{CALL.replace('Paris', 'é}')}"
    message = both(client, engine, script, max_tokens, max_tokens=max_tokens, tools=TOOLS)
    for call in message["tool_calls"]:
        assert '{"city": "é}"}'.startswith(call["arguments"].rstrip("\ufffd"))


def test_several_answers_do_not_mix(client: Client) -> None:
    body = {"messages": HI, "n": 3, "temperature": 1, "seed": 4, "max_tokens": 12}
    whole = [choice["message"]["content"] for choice in client.post(PATH, body).json()["choices"]]
    texts = ["", "", ""]
    for event in client.events(PATH, body):
        for choice in event["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
    assert texts == whole


def test_the_first_word_is_whose_message_it_is(client: Client, engine: ScriptedEngine) -> None:
    engine.say("Hello")
    first, *rest = client.events(PATH, {"messages": HI})
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all("role" not in event["choices"][0]["delta"] for event in rest)


@pytest.mark.parametrize(
    ("script", "stops", "pieces"),
    [
        (("DEF", "G", "HI", "J"), ["DEFGHIJ"], ""),
        (("I", " am"), ["ZZZ"], "I am"),
        (("?\n",), ["\n\n"], "?\n"),
        ((" zeta", " eta", " theta"), [" zeta eta theta"], ""),
        ((" zeta", " eta"), [" zeta eta theta"], " zeta eta"),
        (("xa", "b", "c"), ["abcd", "bc"], "xa"),
        (("xa", "b", "c"), ["bc", "abcd"], "xa"),
    ],
)
def test_stops_never_leak_and_what_is_none_is_never_lost(
    client: Client, engine: ScriptedEngine, script: tuple[str, ...], stops: list[str], pieces: str
) -> None:
    assert both(client, engine, "".join(script), 1, stop=stops)["content"] == pieces


def test_text_that_can_be_no_stop_is_told_at_once(client: Client, engine: ScriptedEngine) -> None:
    engine.say("I am", split=random.Random(0))
    deltas = [
        event["choices"][0]["delta"].get("content") for event in client.events(PATH, {"messages": HI, "stop": ["ZZZ"]})
    ]
    assert next(delta for delta in deltas if delta)[0] == "I"
    assert "" not in deltas[1:]


def test_an_error_inside_a_stream_is_an_event(
    client: Client, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sureact.constraints.json_schema import JsonSchemaConstraint
    from sureact.errors import InternalError

    def refuse(self: object, text: str) -> None:
        raise InternalError("in /opt/secret")

    monkeypatch.setattr(JsonSchemaConstraint, "parse", refuse)
    engine.say('{"a": 1}')
    body = {"messages": HI, "response_format": {"type": "json_object"}, "max_tokens": 50}
    *_, last = client.events(PATH, body)
    assert last["error"]["code"] == "internal_error"
    assert "/opt" not in str(last)
    assert client.post(PATH, body).status_code == 500
