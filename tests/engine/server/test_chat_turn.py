import asyncio
from typing import Any

import pytest
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.async_engine import AsyncEngine
from sureact.server.chat_fields import CHAT_FIELDS
from sureact.server.chat_turn import ChatTurn
from sureact.server.request_fields import read_fields
from sureact.server.server_config import ServerConfig
from sureact.server.serving import Serving
from sureact.server.turn_events import CallBegun, CallPiece, TextPiece, TurnEnd, TurnEvent
from sureact.server.turn_plan import plan_turn

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CLOCK = {"type": "function", "function": {"name": "get_time"}}
TOOLS = [WEATHER, CLOCK]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
THOUGHT = "<think>\nLet me\nsee.\n</think>\n\n"


class Told:
    """The sum of what a turn tells."""

    def __init__(self, events: list[TurnEvent]) -> None:
        self.content = "".join(e.text for e in events if isinstance(e, TextPiece) and e.kind == "content")
        self.reasoning = "".join(e.text for e in events if isinstance(e, TextPiece) and e.kind == "reasoning")
        self.calls = [
            (begun.name, "".join(e.text for e in events if isinstance(e, CallPiece) and e.index == begun.index))
            for begun in events
            if isinstance(begun, CallBegun)
        ]
        self.pieces = [sum(isinstance(e, CallPiece) and e.index == i for e in events) for i in range(len(self.calls))]
        assert isinstance(events[-1], TurnEnd)
        self.end = events[-1]
        self.reason = self.end.finish_reason


def turn(engine: ScriptedEngine, script: str | None, **body: Any) -> Told:
    if script is not None:
        engine.say(script)
    serving = Serving(AsyncEngine.of(engine), ServerConfig())
    values = read_fields({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 300, **body}, CHAT_FIELDS)
    events: list[TurnEvent] = []

    async def emit(event: TurnEvent) -> None:
        events.append(event)

    async def main() -> None:
        await ChatTurn(serving, await plan_turn(serving, values, None), emit).run()

    asyncio.run(main())
    return Told(events)


def test_a_text_ends_where_the_model_ends_it(engine: ScriptedEngine) -> None:
    told = turn(engine, "Hello 😀")
    assert (told.content, told.reasoning, told.calls, told.reason) == ("Hello 😀", "", [], "stop")


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_calls_are_read_as_they_come(engine: ScriptedEngine, choice: str) -> None:
    told = turn(engine, f"{CALL}\n{CALL.replace('Paris', '{[}')}", tools=TOOLS, tool_choice=choice)
    assert told.calls == [("get_weather", '{"city": "Paris"}'), ("get_weather", '{"city": "{[}"}')]
    assert (told.content, told.reason) == ("", "tool_calls")


def test_text_may_stand_before_a_call(engine: ScriptedEngine) -> None:
    told = turn(engine, f"Let me see.\n{CALL}", tools=TOOLS)
    assert (told.content, told.calls) == ("Let me see.", [("get_weather", '{"city": "Paris"}')])


def test_one_call_is_all_where_no_two_may_stand(engine: ScriptedEngine) -> None:
    assert len(turn(engine, f"{CALL}\n{CALL}", tools=TOOLS, parallel_tool_calls=False).calls) == 1
    named = {"type": "function", "function": {"name": "get_weather"}}
    assert len(turn(engine, f"{CALL}\n{CALL}", tools=TOOLS, tool_choice=named).calls) == 1


@pytest.mark.parametrize("cities", [["Paris", "Paris", "Rome"], ["Paris", "Rome", "Paris"], ["Paris", "Paris"]])
def test_a_call_that_repeats_one_of_its_turn_is_taken_back_and_ends_it(
    engine: ScriptedEngine, cities: list[str]
) -> None:
    is_later = cities[1] == "Rome"
    calls = [CALL.replace("Paris", city) for city in cities]
    without = turn(engine, "\n".join(calls[: 1 + is_later]), tools=TOOLS)
    told = turn(engine, "\n".join(calls), tools=TOOLS)
    assert told.calls == without.calls == [("get_weather", f'{{"city": "{city}"}}') for city in cities[: 1 + is_later]]
    assert told.reason == "tool_calls"
    assert told.end.token_ids == without.end.token_ids
    assert told.end.usage.completion_tokens == without.end.usage.completion_tokens


def test_a_further_call_of_a_tool_is_told_once_it_cannot_be_a_repeat(engine: ScriptedEngine) -> None:
    clock = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
    told = turn(engine, f"{CALL}\n{clock}\n{CALL.replace('Paris', 'Rome, then Athens')}", tools=TOOLS)
    assert told.calls[2] == ("get_weather", '{"city": "Rome, then Athens"}')
    assert told.pieces[0] > 1
    assert told.pieces[2] == 1


def test_a_repeat_that_is_cut_off_is_told_as_a_call_that_is(engine: ScriptedEngine) -> None:
    whole = turn(engine, CALL, tools=TOOLS).end.usage.completion_tokens
    told = turn(engine, f"{CALL}\n{CALL}", tools=TOOLS, max_tokens=2 * whole - 3)
    assert (len(told.calls), told.reason) == (2, "length")


def test_a_newline_after_a_call_opens_no_other(engine: ScriptedEngine) -> None:
    told = turn(engine, CALL + "\n", tools=TOOLS)
    assert (len(told.calls), told.reason) == (1, "tool_calls")
    assert told.end.token_ids[-1] == engine.encode("</tool_call>", parse_control_tokens=True)[0]


def test_a_tool_without_parameters_gets_an_empty_object(engine: ScriptedEngine) -> None:
    told = turn(engine, '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>', tools=TOOLS)
    assert told.calls == [("get_time", "{}")]


def test_a_name_that_is_no_tool_cannot_be_called(engine: ScriptedEngine) -> None:
    told = turn(engine, CALL.replace("get_weather", "rm_rf"), tools=TOOLS, max_tokens=120)
    assert [name for name, _ in told.calls] in (["get_weather"], ["get_time"])


@pytest.mark.parametrize("before", ["", "Sure.\n```json\n", "```\n"])
def test_a_call_without_its_tag_is_a_call(engine: ScriptedEngine, before: str) -> None:
    content = before.partition("```")[0]
    engine.say(f'{before}{{"name": "get_weather", "arguments": {{"city": "Paris"}}}}', content + CALL)
    told = turn(engine, None, tools=TOOLS)
    assert (told.content, told.calls) == (content.strip(), [("get_weather", '{"city": "Paris"}')])


def test_json_that_names_no_tool_is_text(engine: ScriptedEngine) -> None:
    script = 'Here: {"name": "Ann", "age": 3} and {"name": 5}.'
    told = turn(engine, script, tools=TOOLS)
    assert (told.content, told.calls, told.reason) == (script, [], "stop")


def test_the_budget_may_end_behind_json(engine: ScriptedEngine) -> None:
    script = 'Ann: {"name": "Ann", "age": 3}'
    for max_tokens in range(1, 30):
        told = turn(engine, script, tools=TOOLS, max_tokens=max_tokens)
        assert script.startswith(told.content)
        assert told.reason == "length" or told.content == script


def test_a_thought_is_no_content(engine: ScriptedEngine) -> None:
    for script, variables in ((THOUGHT, {}), (THOUGHT.removeprefix("<think>"), {"enable_thinking": True})):
        told = turn(engine, script + "Hello", chat_template_kwargs=variables)
        assert (told.reasoning, told.content) == ("Let me\nsee.", "Hello")
        assert told.end.usage.reasoning_tokens > 3


def test_stops_sleep_inside_of_a_thought(engine: ScriptedEngine) -> None:
    told = turn(engine, "<think>\nObservation: x\n</think>\n\nHi\nObservation: y", stop=["\nObservation:"])
    assert (told.reasoning, told.content, told.end.stop_reason) == ("Observation: x", "Hi", "\nObservation:")


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("kind", ["none", "json", "auto", "required"])
def test_thoughts_stand_before_every_kind_of_answer(engine: ScriptedEngine, kind: str, is_open: bool) -> None:
    answers = {"none": "Hello", "json": '{"a": 1}', "auto": CALL, "required": CALL}
    body: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": True} if is_open else {}}
    if kind == "json":
        body["response_format"] = {"type": "json_object"}
    if kind in ("auto", "required"):
        body |= {"tools": TOOLS, "tool_choice": kind}
    thought = THOUGHT.removeprefix("<think>") if is_open else THOUGHT
    told = turn(engine, thought + answers[kind], **body)
    assert told.reasoning == "Let me\nsee."
    assert told.content == ("" if kind in ("auto", "required") else answers[kind])
    assert told.calls == ([("get_weather", '{"city": "Paris"}')] if kind in ("auto", "required") else [])


def test_a_closed_thought_leaves_the_constraint_on_from_the_first_token(engine: ScriptedEngine) -> None:
    told = turn(
        engine,
        '{"a": 1}',
        chat_template_kwargs={"enable_thinking": False},
        response_format={"type": "json_object"},
    )
    assert (told.reasoning, told.content) == ("", '{"a": 1}')


def test_a_budget_ends_a_thought_without_a_trace_in_the_answer(engine: ScriptedEngine) -> None:
    script = "<think>\n" + "hm " * 30
    told = turn(engine, script, thinking_token_budget=4)
    assert told.reasoning
    assert told.end.usage.reasoning_tokens == 4
    assert "think" not in told.content
    assert turn(engine, "<think>\nab", thinking_token_budget=0).reasoning == ""


def test_a_budget_that_ends_in_a_thought_leaves_no_answer(engine: ScriptedEngine) -> None:
    told = turn(engine, "<think>\n" + "hm " * 30, max_tokens=6)
    assert (told.content, told.reason) == ("", "length")
    assert told.end.usage.completion_tokens == 6


def test_a_call_that_is_cut_off_says_so(engine: ScriptedEngine) -> None:
    told = turn(engine, CALL, tools=TOOLS, max_tokens=12)
    assert told.reason == "length"


def test_the_stop_is_named_and_kept_where_asked_for(engine: ScriptedEngine) -> None:
    for tools in ([], TOOLS):
        told = turn(engine, "one two three", stop=["zzz", " two"], tools=tools)
        assert (told.content, told.end.stop_reason, told.reason) == ("one", " two", "stop")
        kept = turn(engine, "one two three", stop=[" two"], include_stop_str_in_output=True, tools=tools)
        assert kept.content == "one two"
        (stop_id,) = engine.encode("!")
        by_id = turn(engine, "one! two", stop_token_ids=[stop_id], tools=tools)
        assert (by_id.content, by_id.end.stop_reason) == ("one", stop_id)


def test_token_ids_are_all_that_follows_the_prompt(engine: ScriptedEngine) -> None:
    told = turn(engine, f"Hi.\n{CALL}", tools=TOOLS)
    assert "get_weather" in engine.decode(told.end.token_ids)
    assert told.end.token_ids[0] in engine.encode("Hi.")
