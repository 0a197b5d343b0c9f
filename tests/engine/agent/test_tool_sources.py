import asyncio
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from langchain_core.tools import InjectedToolArg, StructuredTool, ToolException, tool
from pydantic import BaseModel, Field

from sureact.agent.tool import Tool, tools_by_name
from sureact.agent.tool_call import run_tool
from sureact.agent.tool_sources import mcp_text, tools_of
from sureact.errors import ToolDefinitionError, ToolExecutionError


class Place(BaseModel):
    city: str
    country: str = Field("PT", description="two letters")


def weather(place: Place, days: int = 1) -> str:
    """Tell the weather.

    Args:
        place: where
        days: how many
    """
    return f"sunny in {place.city}, {place.country} for {days}"


async def later(city: str) -> str:
    """Tell it later."""
    await asyncio.sleep(0)
    return f"later in {city}"


def secret(city: str, token: str) -> str:
    """Use what the host injects."""
    return f"{city} {token}"


secret.__annotations__["token"] = __import__("typing").Annotated[str, InjectedToolArg]


def loose(city: str, *more: str, **others: str) -> str:
    """Take anything."""
    return city + "".join(more) + "".join(others)


def mention(city: str) -> str:
    return city


QWEN: dict[str, Any] = {
    "name_for_human": "夸克搜索",
    "name_for_model": "quark_search",
    "description_for_model": "夸克搜索是一个通用搜索引擎",
    "parameters": [
        {"name": "search_query", "description": "搜索关键词", "required": True, "schema": {"type": "string"}},
        {"name": "count", "description": "几个", "required": False, "schema": {"type": "integer"}},
    ],
}


def search(search_query: str, count: int = 1) -> list[str]:
    return [search_query] * count


def test_a_langchain_tool_keeps_name_description_and_arguments():
    made = Tool.from_langchain(tool(weather))
    assert made.name == "weather"
    assert made.desc.startswith("Tell the weather.")
    assert list(made.args) == ["place", "days"]
    assert made.args["days"] == {"type": "integer", "default": 1}
    assert made.parameters["required"] == ["place"]
    assert run_tool(made, {"place": {"city": "Braga"}}).observation == "sunny in Braga, PT for 1"


def test_a_langchain_tool_that_is_async_only_runs():
    made = Tool.from_langchain(StructuredTool.from_function(coroutine=later, name="later", description="Later."))
    assert made(city="Braga") == "later in Braga"


def test_arguments_that_langchain_injects_are_not_shown():
    made = Tool.from_langchain(tool(secret))
    assert list(made.args) == ["city"]


def test_a_langchain_error_is_an_observation():
    def fail(city: str) -> str:
        """Fail."""
        raise ToolException(f"no {city}")

    assert run_tool(Tool.from_langchain(tool(fail)), {"city": "Rome"}).observation == (
        "Execution error in fail: ToolException: no Rome"
    )


def test_a_langchain_tool_with_a_schema_as_a_dictionary():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    made = Tool.from_langchain(StructuredTool(name="my tool", description="Mine.", args_schema=schema, func=mention))
    assert (made.name, made.parameters) == ("my_tool", schema)
    assert made(city="Rome") == "Rome"


def test_a_dspy_tool_keeps_name_description_and_arguments():
    made = Tool.from_dspy(dspy.Tool(weather, name="forecast", arg_desc={"days": "1 to 7"}))
    assert (made.name, list(made.args)) == ("forecast", ["place", "days"])
    assert made.args["days"]["description"] == "1 to 7"
    assert made.parameters["required"] == ["place"]
    assert made(place={"city": "Braga"}, days=2) == "sunny in Braga, PT for 2"


def test_a_dspy_tool_that_is_async_runs():
    assert Tool.from_dspy(dspy.Tool(later), timeout_s=20)(city="Braga") == "later in Braga"


def test_what_a_dspy_tool_takes_without_a_name_is_left_out():
    made = Tool.from_dspy(dspy.Tool(loose))
    assert list(made.args) == ["city"]
    assert made(city="Rome") == "Rome"


def test_a_qwen_dictionary_with_a_function():
    made = Tool.from_qwen(QWEN, search)
    assert (made.name, made.title, made.desc) == ("quark_search", "夸克搜索", "夸克搜索是一个通用搜索引擎")
    assert made.parameters == {
        "type": "object",
        "properties": {
            "search_query": {"type": "string", "description": "搜索关键词"},
            "count": {"type": "integer", "description": "几个"},
        },
        "required": ["search_query"],
        "additionalProperties": False,
    }
    assert made(search_query="周杰伦") == ["周杰伦"]


@pytest.mark.parametrize(("given", "name"), [("夸克搜索", "u5938_u514b_u641c_u7d22"), ("two words", "two_words")])
def test_the_name_of_a_qwen_dictionary_is_spelled_as_tools_are_called(given: str, name: str):
    made = Tool.from_qwen({**QWEN, "name_for_model": given}, search)
    assert (made.name, made.title) == (name, "夸克搜索")


def test_the_tool_api_of_a_qwen_dictionary_takes_json_text():
    def api(text: str) -> str:
        return json.loads(text)["query"] + "!"

    flat = [{"name": "query", "type": "string", "description": "words", "required": True}]
    (made,) = tools_of({**QWEN, "parameters": flat, "tool_api": api})
    assert made.args == {"query": {"type": "string", "description": "words"}}
    assert made(query="中文") == "中文!"


@pytest.mark.parametrize(
    "changes",
    [
        {"name_for_model": None},
        {"name_for_model": " "},
        {"name_for_human": 5},
        {"description_for_model": 5},
        {"parameters": "query"},
        {"parameters": ["query"]},
        {"parameters": [{"description": "nameless"}]},
        {"parameters": [{"name": "a", "schema": "string"}]},
        {},
    ],
    ids=str,
)
def test_a_qwen_dictionary_that_lacks_something_is_refused(changes: Mapping[str, Any]):
    with pytest.raises(ToolDefinitionError):
        Tool.from_qwen({**QWEN, **changes}, None if not changes else search)


class Diary:
    def note(self, text: str) -> int:
        """Note."""
        return len(text)

    def read(self) -> str:
        """Read."""
        return ""


def test_a_list_may_mix_tools_of_all_kinds():
    named = tools_by_name([later, Tool(search), tool(weather), dspy.Tool(loose), Diary, {**QWEN, "tool_api": print}])
    assert list(named) == ["later", "search", "weather", "loose", "note", "read", "quark_search"]


@pytest.mark.parametrize("make", [Tool.from_langchain, Tool.from_dspy])
def test_what_is_no_such_tool_is_refused(make: Any):
    with pytest.raises(ToolDefinitionError, match="takes a"):
        make(search)


class FakeSession:
    """What a session of MCP looks like, of the 1.x and of the 2.x."""

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        text = f"{name} {arguments}"
        return SimpleNamespace(content=[SimpleNamespace(type="text", text=text)], isError=False)


def test_a_tool_of_an_open_session_is_called_on_its_loop():
    listed = SimpleNamespace(name="look/up", description=None, inputSchema={"properties": {"a": {"type": "integer"}}})

    async def run() -> object:
        made = Tool.from_mcp(FakeSession(), listed, title="Look up")
        assert (made.name, made.title, made.desc) == ("look_up", "Look up", "")
        return await asyncio.to_thread(made, a=1)

    assert asyncio.run(run()) == "look/up {'a': 1}"


def test_without_a_loop_or_a_session_there_is_no_tool():
    with pytest.raises(ToolDefinitionError, match="mcp_tools"):
        Tool.from_mcp(FakeSession(), SimpleNamespace(name="a"))

    async def run() -> None:
        Tool.from_mcp(5, SimpleNamespace(name="a"))

    with pytest.raises(ToolDefinitionError, match="takes an MCP session"):
        asyncio.run(run())


def test_an_answer_of_mcp_is_text():
    blocks = [
        SimpleNamespace(type="text", text="one"),
        SimpleNamespace(type="image", data="aGVsbG8h", mimeType="image/png"),
        SimpleNamespace(type="resource", resource=SimpleNamespace(uri="file:///a", text="inside")),
        SimpleNamespace(type="resource_link", uri="file:///b"),
    ]
    assert mcp_text(SimpleNamespace(content=blocks)) == (
        "one\n[image, image/png, 6 bytes]\ninside\n[resource_link, file:///b]"
    )
    assert mcp_text(SimpleNamespace(content=[], structured_content={"a": "é"})) == '{"a": "é"}'
    assert mcp_text(SimpleNamespace(content=[])) == ""


@pytest.mark.parametrize(
    ("content", "message"), [([], "gave no reason"), ([SimpleNamespace(type="text", text="no")], "no")]
)
def test_an_error_of_mcp_is_raised(content: list[object], message: str):
    with pytest.raises(ToolExecutionError, match=message):
        mcp_text(SimpleNamespace(content=content, is_error=True))
