from typing import Any

import pytest

from sureact.server.api_error import ApiError
from sureact.server.tool_plan import (
    ToolChoice,
    read_flat_tool_choice,
    read_flat_tools,
    read_tool_choice,
    read_tools,
    tool_plan,
)


def tool(name: str, **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **function}}


TOOLS = read_tools([tool("search", description="d", strict=True), tool("add", parameters={"type": "object"})], "tools")


def flat(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, **fields}


def named(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name}} for name in names]


def test_flat_tools_are_the_same_tools() -> None:
    search = flat("search", description="d", strict=True, parameters=None, defer_loading=False, output_schema=None)
    assert read_flat_tools([search, flat("add", parameters={"type": "object"})], "tools") == TOOLS


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
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": named("add")}},
            {"add"},
            "auto",
            True,
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": named("add", "search")}},
            {"search", "add"},
            "required",
            True,
        ),
    ],
)
def test_choices_say_what_may_be_called(choice: Any, names: set[str], word: str, is_parallel: bool) -> None:
    read = None if choice is None else read_tool_choice(choice, "tool_choice")
    plan = tool_plan(TOOLS, read, is_parallel=True)
    assert (set(plan.callable_names), plan.choice, plan.is_parallel) == (names, word, is_parallel)
    assert [branch.name for branch in plan.branches] == [name for name in ("search", "add") if name in names]


def test_flat_choices_are_the_same_choices() -> None:
    assert read_flat_tool_choice("required", "tool_choice") == ToolChoice("required")
    choice = read_flat_tool_choice(flat("add"), "tool_choice")
    assert tool_plan(TOOLS, choice, is_parallel=True) == tool_plan(
        TOOLS, read_tool_choice(named("add")[0], "tool_choice"), is_parallel=True
    )
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [flat("add")]}
    plan = tool_plan(TOOLS, read_flat_tool_choice(allowed, "tool_choice"), is_parallel=True)
    assert (plan.callable_names, plan.choice, len(plan.functions)) == ({"add"}, "auto", 2)


def test_a_chat_without_tools_calls_none() -> None:
    assert tool_plan([], ToolChoice("auto"), is_parallel=True).choice == "none"


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


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([flat("a"), flat("a")], "tools[1].name"),
        ([flat("a b")], "tools[0].name"),
        ([{"type": "function"}], "tools[0].name"),
        ([{"name": "a"}], "tools[0].type"),
        ([{"type": "web_search", "search_context_size": "low"}], "tools[0].type"),
        ([tool("a")], "tools[0].function"),
        ([flat("a", parameters=[])], "tools[0].parameters"),
        ([flat("a", defer_loading=True)], "tools[0].defer_loading"),
        (["search"], "tools[0]"),
    ],
)
def test_what_is_no_flat_tool_is_refused_with_its_place(tools: Any, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_flat_tools(tools, "tools")
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("any", "tool_choice"),
        (3, "tool_choice"),
        (["auto"], "tool_choice"),
        ({}, "tool_choice.type"),
        ({"type": "web_search"}, "tool_choice.type"),
        ({"type": "function"}, "tool_choice.function"),
        ({"type": "function", "function": {}}, "tool_choice.function.name"),
        ({"type": "allowed_tools"}, "tool_choice.allowed_tools"),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "none", "tools": named("add")}},
            "tool_choice.allowed_tools.mode",
        ),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, "tool_choice.allowed_tools.tools"),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [flat("add")]}},
            "tool_choice.allowed_tools.tools[0].name",
        ),
    ],
)
def test_what_is_no_choice_is_refused_with_its_place(choice: Any, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_tool_choice(choice, "tool_choice")
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ({"type": "web_search_preview"}, "tool_choice.type"),
        ({"type": "function"}, "tool_choice.name"),
        (named("add")[0], "tool_choice.function"),
        ({"type": "allowed_tools", "mode": "auto"}, "tool_choice.tools"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [flat("add")] * 129}, "tool_choice.tools"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}, "tool_choice.tools[0].type"),
    ],
)
def test_what_is_no_flat_choice_is_refused_with_its_place(choice: Any, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_flat_tool_choice(choice, "tool_choice")
    assert refused.value.param == param


def test_a_choice_must_be_among_the_tools() -> None:
    for choice in (
        named("other")[0],
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": named("x")}},
    ):
        with pytest.raises(ApiError, match="none of the tools"):
            tool_plan(TOOLS, read_tool_choice(choice, "tool_choice"), is_parallel=True)
    with pytest.raises(ApiError, match="no tools"):
        tool_plan([], ToolChoice("required"), is_parallel=True)
