"""Calls are found in what models write around them, and judged by their schemas."""

import pytest

from sureact.agent.tool import Tool
from sureact.evaluation.scoring.call_reading import first_object, judged, read_calls


def look(word: str, times: int = 1) -> str:
    """Look up."""
    return word * times


TOOLS = {"look": Tool(look)}


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "look", "arguments": {"word": "a"}}',
        '```json\n{\n  "name": "look",\n  "arguments": {\n    "word": "a"\n  }\n}\n```',
        'I call {x}: <tool_call>{"name":"look","arguments":{"word":"a"}}</tool_call> Done.',
        '{"name": "look", "parameters": {"word": "a"}}',
        '{"name": "look", "arguments": "{\\"word\\": \\"a\\"}"}',
        'Thought: t\nAction: look\nArguments: {"word": "a"}\nObservation: x',
        'Action: look\nAction Input: {"word": "a"}',
    ],
)
def test_a_call_is_found(text: str) -> None:
    (call,) = read_calls(text, TOOLS)
    assert (call.tool_name, call.args, call.fault) == ("look", {"word": "a"}, "")


def test_several_calls_come_in_order() -> None:
    text = '{"name": "look", "arguments": {"word": "a"}}\n{"name": "look", "arguments": {"word": "b"}}'
    assert [call.args["word"] for call in read_calls(text, TOOLS)] == ["a", "b"]


@pytest.mark.parametrize(
    "text", ["", "No.", "{", '{"name": "look"}', '{"name": "look", "arguments": {"word": "a"', "[" * 9]
)
def test_where_there_is_no_call_none_is_found(text: str) -> None:
    assert read_calls(text, TOOLS) == []


@pytest.mark.parametrize(
    ("name", "args", "fault"),
    [
        ("find", {}, "no tool 'find'"),
        (3, {}, "no tool 3"),
        ("look", [1], "no JSON object"),
        ("look", "a", "no JSON object"),
        ("look", None, "no JSON object"),
        ("look", {}, "'word' is a required property"),
        ("look", {"word": 3}, "3 is not of type 'string'"),
        ("look", {"word": "a", "more": 1}, "'more'"),
    ],
)
def test_what_is_wrong_with_a_call_is_said(name: object, args: object, fault: str) -> None:
    assert fault in judged(name, args, TOOLS).fault


def test_a_labelled_call_without_arguments_is_not_valid() -> None:
    assert read_calls("Action: look\nArguments: word", TOOLS)[0].fault == "The arguments are no JSON object."


def test_the_first_object_is_taken() -> None:
    assert first_object('x {"a": 1} {"b": 2}') == {"a": 1}
    assert first_object("none") is None
