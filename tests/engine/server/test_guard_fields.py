"""Guards over HTTP: what ends text that runs on, and how an answer tells it."""

import json
from typing import Any

import pytest
from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine
from tests.engine.server.test_chat_turn import CALL, TOOLS, Told, turn

from sureact.outputs import EarlyEnd
from sureact.sampling_params import RunawayLimits
from sureact.server.api_error import ApiError
from sureact.server.guard_fields import GUARD_FIELDS, are_guards_on
from sureact.server.request_fields import read_fields
from sureact.server.turn_events import PartEndedEarly

RUNAWAY = {"runaway": {"repeated_tokens": 24}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
FORM = {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}}
LAUGH = "ha ho " * 60
QUIET = {"chat_template_kwargs": {"enable_thinking": False}}


def ends(told: Told) -> list[PartEndedEarly]:
    """What a turn tells of its guards."""
    assert told.end.early_ends is not None
    return list(told.end.early_ends)


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        (None, None),
        (False, None),
        (True, RunawayLimits()),
        (
            {"number_characters": 9},
            RunawayLimits(repeated_tokens=None, string_characters=None, number_characters=9, array_items=None),
        ),
    ],
)
def test_limits_are_those_of_agents_or_the_ones_named(given: Any, limits: RunawayLimits | None) -> None:
    values = read_fields({"runaway": given}, GUARD_FIELDS)
    assert values["runaway"] == limits
    assert are_guards_on(values) == (limits is not None)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"runaway": {}}, "runaway"),
        ({"runaway": 1}, "runaway"),
        ({"runaway": {"array_items": 0}}, "runaway.array_items"),
        ({"runaway": {"items": 3}}, "runaway.items"),
        ({"on_max_tokens": "stop"}, "on_max_tokens"),
    ],
)
def test_what_is_no_guard_is_refused_by_name(body: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_fields(body, GUARD_FIELDS)
    assert refused.value.param == param


def test_nothing_is_told_where_no_guard_is_asked_for(engine: ScriptedEngine) -> None:
    assert turn(engine, "Hello").end.early_ends is None
    assert turn(engine, "Hello", runaway=True).end.early_ends == ()


def test_a_value_that_runs_on_is_closed(engine: ScriptedEngine) -> None:
    told = turn(engine, f'{{"a": "{LAUGH}"}}', **FORM, **RUNAWAY, **QUIET)
    assert LAUGH.startswith(json.loads(told.content)["a"])
    assert told.reason == "stop"
    (ended,) = ends(told)
    assert (ended.part, ended.call_index, ended.end.reason, ended.end.pointer) == ("content", None, "repetition", "/a")


def test_a_text_that_runs_on_ends(engine: ScriptedEngine) -> None:
    told = turn(engine, LAUGH, **RUNAWAY, **QUIET)
    assert LAUGH.startswith(told.content)
    assert told.reason == "length"
    (ended,) = ends(told)
    assert ended == PartEndedEarly("content", None, EarlyEnd("repetition", ended.end.num_tokens, None))


def test_a_thought_that_runs_on_ends_and_the_answer_comes(engine: ScriptedEngine) -> None:
    told = turn(engine, f"<think>\n{LAUGH}", **RUNAWAY)
    assert LAUGH.startswith(told.reasoning)
    assert [ended.part for ended in ends(told)] == ["reasoning"]
    assert told.reason == "stop"


def test_a_call_that_runs_on_is_closed_and_told_with_its_index(engine: ScriptedEngine) -> None:
    second = CALL.replace("Paris", LAUGH)
    told = turn(engine, f"{CALL}\n{second}", tools=TOOLS, max_tokens=400, **RUNAWAY)
    assert told.reason == "tool_calls"
    assert [json.loads(arguments).keys() for _, arguments in told.calls] == [{"city"}, {"city"}]
    (ended,) = ends(told)
    assert (ended.part, ended.call_index, ended.end.reason) == ("call", 1, "repetition")


@pytest.mark.parametrize("is_call", [False, True])
def test_what_the_budget_would_cut_is_closed(engine: ScriptedEngine, is_call: bool) -> None:
    words = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    script = CALL.replace("Paris", words) if is_call else f'{{"a": "{words}"}}'
    body: dict[str, Any] = {"tools": TOOLS, "tool_choice": "required"} if is_call else FORM
    cut = turn(engine, script, max_tokens=40, **body, **QUIET)
    assert (cut.reason, cut.end.early_ends) == ("length", None)
    told = turn(engine, script, max_tokens=40, on_max_tokens="close", **body, **QUIET)
    (value,) = json.loads(told.calls[0][1] if is_call else told.content).values()
    assert words.startswith(value)
    assert told.reason == ("tool_calls" if is_call else "stop")
    assert [(ended.part, ended.end.reason) for ended in ends(told)] == [
        ("call" if is_call else "content", "max_tokens")
    ]


@pytest.mark.parametrize(
    ("path", "prompt", "form"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], **QUIET}, FORM),
        ("/v1/completions", {"prompt": "hi", "max_tokens": 400}, FORM),
        (
            "/v1/responses",
            {"input": "hi", **QUIET},
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}},
        ),
    ],
)
def test_every_route_tells_what_was_ended(
    client: Client, engine: ScriptedEngine, path: str, prompt: dict[str, Any], form: dict[str, Any]
) -> None:
    engine.say(f'{{"a": "{LAUGH}"}}')
    response = client.post(path, {**prompt, **form, **RUNAWAY})
    assert response.status_code == 200, response.text
    answer = response.json()
    (ended,) = answer.get("early_ends") or answer["choices"][0]["early_ends"]
    assert (ended["reason"], ended["pointer"]) == ("repetition", "/a")


def test_a_stream_tells_it_at_its_end(client: Client, engine: ScriptedEngine) -> None:
    engine.say(f'{{"a": "{LAUGH}"}}')
    messages = [{"role": "user", "content": "hi"}]
    events = client.events("/v1/chat/completions", {"messages": messages, "stream": True, **QUIET, **FORM, **RUNAWAY})
    told = [choice.get("early_ends") for event in events for choice in event["choices"]]
    assert told[:-1] == [None] * (len(told) - 1)
    assert [end["part"] for end in told[-1]] == ["content"]
