from typing import Any

import pytest

from sureact.server.api_error import ApiError
from sureact.server.tool_plan import read_tool_choice, read_tools, tool_plan


def tool(name: str, **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **function}}


TOOLS = read_tools([tool("search", description="d", strict=True), tool("add", parameters={"type": "object"})], "tools")


def test_a_tool_without_parameters_takes_none() -> None:
    assert TOOLS[0]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert "strict" not in TOOLS[0]["function"]


@pytest.mark.parametrize(
    ("choice", "names", "word", "is_parallel"),
    [
        (None, {"search", "add"}, "auto", True),
        ("auto", {"search", "add"}, "auto", True),
        ("required", {"search", "add"}, "required", True),
        ("none", set[str](), "none", True),
        ({"type": "function", "function": {"name": "add"}}, {"add"}, "required", False),
    ],
)
def test_choices_say_what_may_be_called(choice: Any, names: set[str], word: str, is_parallel: bool) -> None:
    read = None if choice is None else read_tool_choice(choice, "tool_choice")
    plan = tool_plan(TOOLS, read, is_parallel=True)
    assert (set(plan.callable_names), plan.choice, plan.is_parallel) == (names, word, is_parallel)
    assert [branch.name for branch in plan.branches] == [name for name in ("search", "add") if name in names]


def test_a_chat_without_tools_calls_none() -> None:
    assert tool_plan([], "auto", is_parallel=True).choice == "none"


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ({}, "tools"),
        ([tool("a")] * 129, "tools"),
        ([tool("a"), tool("a")], "tools[1].function.name"),
        ([tool("")], "tools[0].function.name"),
        ([tool("a b")], "tools[0].function.name"),
        ([tool("x" * 65)], "tools[0].function.name"),
        ([{"function": {"name": "a"}}], "tools[0].type"),
        ([{"type": "retrieval"}], "tools[0].type"),
        ([{"type": "function"}], "tools[0].function"),
        ([tool("a", parameters=[])], "tools[0].function.parameters"),
        ([tool("a", returns={})], "tools[0].function.returns"),
    ],
)
def test_what_is_no_tool_is_refused_with_its_place(tools: Any, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_tools(tools, "tools")
    assert refused.value.param == param


@pytest.mark.parametrize("choice", ["any", 3, {"type": "function"}, {"type": "function", "function": {}}, ["auto"]])
def test_what_is_no_choice_is_refused(choice: Any) -> None:
    with pytest.raises(ApiError, match="tool_choice"):
        read_tool_choice(choice, "tool_choice")


def test_a_choice_must_be_among_the_tools() -> None:
    with pytest.raises(ApiError, match="none of the tools"):
        tool_plan(TOOLS, {"name": "other"}, is_parallel=True)
    with pytest.raises(ApiError, match="no tools"):
        tool_plan([], "required", is_parallel=True)
