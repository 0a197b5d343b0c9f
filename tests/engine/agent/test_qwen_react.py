import io
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.agent.qwen_react import (
    STOP_WORDS,
    ParsedCall,
    build_prompt,
    parse_latest_call,
    print_run,
    read_arguments,
    use_tool,
)
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.tool import Tool
from sureact.errors import ConfigError, ToolExecutionError


def image_api(arguments: str) -> str:
    return f"painted {arguments}"


SEARCH: dict[str, Any] = {
    "name_for_human": "夸克搜索",
    "name_for_model": "quark_search",
    "description_for_model": "搜索引擎。",
    "parameters": [
        {"name": "search_query", "description": "搜索关键词", "required": True, "schema": {"type": "string"}}
    ],
    "tool_api": image_api,
}


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def say(text: str) -> str:
    """Say a text."""
    return text


def total(numbers: list[int]) -> int:
    """Add numbers."""
    return sum(numbers)


def now() -> str:
    """Tell the time."""
    return "noon"


def test_the_prompt_describes_the_tools_and_ends_with_the_question():
    prompt = build_prompt(" 谁是周杰伦？\n", [SEARCH, add])
    assert 'quark_search (夸克搜索): 搜索引擎。 Parameters: [{"name": "search_query", "description": ' in prompt
    assert "out of [quark_search, add]" in prompt
    assert "Final Answer: the answer to the question\n" in prompt
    assert prompt.endswith("\nQuestion: 谁是周杰伦？")


def test_a_template_of_the_reader_is_filled_in():
    prompt = build_prompt(
        "谁？",
        [SEARCH, add],
        template="Tools:\n{tool_descs}\nNames: [{tool_names}] {{}}\nQ: {query}\n",
        tool_template="{name_for_model}/{name_for_human}: {description_for_model} {parameters}",
    )
    assert prompt.startswith('Tools:\nquark_search/夸克搜索: 搜索引擎。 [{"name": "search_query", ')
    assert "\n\nadd/add: Add two numbers. [" in prompt
    assert prompt.endswith("\nNames: [quark_search,add] {}\nQ: 谁？")


def test_a_template_without_one_for_tools_takes_our_description():
    prompt = build_prompt("Q?", [add], template="{tool_descs} {query}")
    assert prompt.startswith("add: Add two numbers. Parameters: ")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"template": "{question}"}, "write {query}"),
        ({"template": "{query} {tools}"}, "KeyError: 'tools'.*{tool_descs}, {tool_names}, {query}"),
        ({"template": "{query} {"}, "other braces are doubled"),
        ({"template": "{query} {0}"}, "template cannot be filled in"),
        ({"template": "{query} {tool_descs}", "tool_template": "{name}"}, "tool_template cannot be filled in"),
        ({"tool_template": "{name_for_model}"}, "without template"),
    ],
)
def test_a_template_that_cannot_be_filled_in_is_refused(options: dict[str, str], reason: str):
    with pytest.raises(ConfigError, match=reason):
        build_prompt("Q?", [add], **options)


CALL = 'Thought: 我来查。\nAction: search\nAction Input: {"q": "周杰伦"}'


@pytest.mark.parametrize(
    "end", ["", "\n", "\nObservation:", "\nObservation:\n", "\nObserv", "\n Obs", "\nObservation: 编的"]
)
def test_a_call_ends_where_an_observation_would_begin(end: str):
    assert parse_latest_call(CALL + end) == ParsedCall("search", '{"q": "周杰伦"}', CALL)


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("Action: a\nAction Input: 1", ("a", "1")),  # at the very start
        ("\nAction:a\nAction Input:1\nAction: b\nAction Input: 2", ("b", "2")),  # the last of several
        ("\nAction: a\nAction Input: 1\nThought: x\nAction: b", ("a", "1")),  # the last one is cut off
        ("\nAction: a\nAction Input: 1\nAction: b\nThought: x", ("a", "1")),
        ("Action：搜索\n  Action Input：北京", ("搜索", "北京")),
        ('Action: a\nAction Input: {"x": 1,\n  "y": 2}\nThought: then', ("a", '{"x": 1,\n  "y": 2}')),
        ('Action: a\nAction Input: {"x": "Action: b Observation: c"}', ("a", '{"x": "Action: b Observation: c"}')),
        ("Action: a\nAction Input: 1\nObservation: 编的\nAction: b\nAction Input: 2", ("b", "2")),
        ("Action: a\nAction Input: 1\nObservation: 编的\nThought: I know\nFinal Answer: 2", ("a", "1")),
        ("Action: a\nAction Input: 1\nThought: I know\nFinal Answer: 2", None),
        ("Thought: I know\nFinal Answer: 2\nQuestion: more?\nAction: a\nAction Input: 1", None),
        ("Thought: 提供的工具帮助较小。\nFinal Answer: 你好！", None),
        ("I would use Action: a and Action Input: 1", None),
        ("Action Input: 1\nAction: a", None),
        ("Action:\nAction Input: 1", None),
        ("Action: a", None),
        ("", None),
    ],
)
def test_the_last_complete_call_is_taken(text: str, call: tuple[str, str] | None):
    parsed = parse_latest_call(text)
    assert (parsed and (parsed.tool_name, parsed.arguments)) == call


def test_the_text_of_a_call_ends_with_its_arguments():
    parsed = parse_latest_call("Thought: x\nAction: a\nAction Input: 1\nObservation: 编的\nFinal Answer: 2")
    assert parsed is not None
    assert parsed.text == "Thought: x\nAction: a\nAction Input: 1"


NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1)


@given(before=st.text(), name=NAMES, arguments=st.text(), after=st.text())
def test_any_text_can_be_parsed(before: str, name: str, arguments: str, after: str):
    parse_latest_call(before)
    parsed = parse_latest_call(f"{before}\nAction: {name}\nAction Input: {arguments}\nObservation: {after}")
    assert parsed is None or parsed.tool_name


@pytest.mark.parametrize(
    ("function", "text", "args"),
    [
        (add, '{"a": 1}', {"a": 1}),
        (add, "{'a': 1, b: 2,} // both", {"a": 1, "b": 2}),
        (add, '```json\n{"a": 1}\n```', {"a": 1}),
        (add, "```\n{a: 1}```", {"a": 1}),
        (say, '{"text": "two\nlines"}', {"text": "two\nlines"}),
        (say, "周杰伦", {"text": "周杰伦"}),
        (say, '"周杰伦"', {"text": "周杰伦"}),
        (say, "42", {"text": "42"}),
        (say, "'a' is a letter", {"text": "'a' is a letter"}),
        (say, "```python\nprint(1)\n```", {"text": "print(1)"}),
        (say, "[1, 2]", {"text": "[1, 2]"}),
        (now, "", {}),
        (now, "None", {}),
        (now, "{}", {}),
        (total, "[1, 2]", {"numbers": [1, 2]}),
    ],
)
def test_arguments_are_read_however_they_are_spelled(function: Any, text: str, args: dict[str, Any]):
    assert read_arguments(Tool(function), text) == args


@pytest.mark.parametrize("text", ["1 and 2", "{a", "[1]", "", "null", "{'a':" * 5000])
def test_arguments_that_cannot_be_read_are_an_error(text: str):
    with pytest.raises(ToolExecutionError, match="no JSON object with a, b"):
        read_arguments(Tool(add), text)


@pytest.mark.parametrize("text", ['{"text": "Par', "{broken", "[1, 2", '```json\n{"text":\n```', "", "null", "None"])
def test_what_was_cut_off_or_left_out_is_not_the_argument_itself(text: str):
    with pytest.raises(ToolExecutionError, match="no JSON object with text"):
        read_arguments(Tool(say), text)


def test_what_looks_like_json5_needs_the_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "json5", None)
    assert read_arguments(Tool(say), "Paris") == {"text": "Paris"}
    with pytest.raises(ConfigError, match=r"sureact\[json5\]"):
        read_arguments(Tool(add), "{a: 1}")


def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


@pytest.mark.parametrize(
    ("name", "arguments", "observation"),
    [
        ("add", "{'a': 40}", "42"),
        ("quark_search", '{"search_query": "周杰伦"}', 'painted {"search_query": "周杰伦"}'),
        ("fail", "no town", "Execution error in fail: ValueError: no town"),
    ],
)
def test_a_parsed_call_is_run(name: str, arguments: str, observation: str):
    assert use_tool(ParsedCall(name, arguments, ""), [add, SEARCH, fail]) == observation


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (("minus", "{}"), "There is no tool 'minus'; there are add, say."),
        (("add", '{"a": "x"}'), "add refuses"),
        (("add", "{}"), "'a' is a required property"),
        (("add", "x"), "no JSON object with a, b"),
        (("add", "{a: NaN}"), "Execution error in add"),
        (("finish", "{}"), "There is no tool 'finish'"),
    ],
)
def test_a_slip_is_an_observation(call: tuple[str, str], reason: str):
    assert reason in use_tool(ParsedCall(*call, ""), [add, say])


def test_without_tools_none_is_there():
    assert use_tool(ParsedCall("a", "", ""), []) == "There is no tool 'a'; there are none."


SCRIPT = [
    " 我来加。\n",
    'Action: add\nAction Input: {"a": 40}\n',
    " I know.\n",
    "Final Answer:\n",
    '{"reasoning": "added", "answer": "42"}',
]


def test_a_run_is_printed_and_its_answer_returned():
    file = io.StringIO()
    prediction = print_run("40 加 2？", [add], lm=ScriptedModel(SCRIPT), file=file)
    assert (prediction.answer, prediction.termination_reason) == ("42", "finish")
    assert file.getvalue() == (
        'Thought: 我来加。\nAction: add\nAction Input: {"a": 40}\nObservation: 42\n'
        "Thought: I know.\nFinal Answer:\n42\n"
    )


def test_a_run_is_printed_to_standard_output(capsys: pytest.CaptureFixture[str]):
    print_run("?", [SEARCH], lm=ScriptedModel([" x\n", *SCRIPT[3:]]), color=True)
    assert capsys.readouterr().out.endswith("\033[32m42\n\033[0m")


def test_a_run_ends_after_its_steps():
    file = io.StringIO()
    prediction = print_run("?", [add], lm=ScriptedModel([*SCRIPT[:2], SCRIPT[4]]), max_iters=1, file=file)
    assert prediction.termination_reason == "max_iters"
    assert file.getvalue().endswith("Observation: 42\nFinal Answer:\n42\n")


def test_a_loop_of_ones_own_goes_on_until_no_call_is_found():
    model_texts = iter(
        [*("".join(["Thought:", *SCRIPT[:2]]) + word + " 编的" for word in STOP_WORDS), "Final Answer: 42"]
    )
    text = ""
    while (call := parse_latest_call(output := next(model_texts))) is not None:
        text += f"{call.text}\nObservation: {use_tool(call, [add])}\n"
    assert text.count("Observation: 42\n") == len(STOP_WORDS)
    assert "编的" not in text
    assert output == "Final Answer: 42"
