"""LangChain's client of OpenAI's protocol, over a loopback socket: chats, streams, tools and typed answers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel
from tests.engine.server.conftest import listening
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.async_engine import AsyncEngine
from sureact.engine import Engine
from sureact.server.app import create_app
from sureact.server.server_config import ServerConfig

langchain_openai = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")

CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 20, "b": 22}}\n</tool_call>'


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Sum(BaseModel):
    """The result of a sum."""

    value: int


def model_at(address: str, **options: Any) -> Any:
    return langchain_openai.ChatOpenAI(
        base_url=f"{address}/v1", api_key="none", model="tiny", max_retries=0, temperature=0, **options
    )


@pytest.fixture(params=["chats", "responses"])
def model(served: str, request: pytest.FixtureRequest) -> Any:
    """A model over the route of chats, or that of responses."""
    return model_at(served, use_responses_api=request.param == "responses")


def run_calls(message: AIMessage) -> list[BaseMessage]:
    """Run what a message calls."""
    return [
        ToolMessage(str(add.invoke(call["args"])), tool_call_id=call["id"] or "", name=call["name"])
        for call in message.tool_calls
    ]


def test_chats(model: Any, engine: ScriptedEngine) -> None:
    engine.say("Hello 😀")
    answer = model.invoke("hi")
    assert answer.text == "Hello 😀"
    assert answer.usage_metadata["output_tokens"] > 0


def test_streams(model: Any, engine: ScriptedEngine) -> None:
    engine.say("Hello 😀, how are you?")
    assert "".join(chunk.text for chunk in model.stream("hi")) == "Hello 😀, how are you?"

    async def read() -> str:
        return "".join([chunk.text async for chunk in model.astream("hi")])

    assert asyncio.run(read()) == "Hello 😀, how are you?"


def test_tools_run_a_loop(model: Any, engine: ScriptedEngine) -> None:
    engine.say(CALL)
    messages: list[BaseMessage] = [HumanMessage("20 + 22?")]
    messages.append(model.bind_tools([add]).invoke(messages))
    messages += run_calls(messages[-1])  # pyright: ignore[reportArgumentType]
    assert messages[-1].content == "42"
    engine.say("It is 42.")
    assert model.bind_tools([add]).invoke(messages).text == "It is 42."


@pytest.mark.parametrize("choice", ["any", "add", "auto"])
def test_choices_of_tools_are_understood(model: Any, engine: ScriptedEngine, choice: str) -> None:
    engine.say(CALL)
    (call,) = model.bind_tools([add], tool_choice=choice).invoke("20 + 22?").tool_calls
    assert (call["name"], call["args"]) == ("add", {"a": 20, "b": 22})


def test_streamed_calls_add_up(model: Any, engine: ScriptedEngine) -> None:
    engine.say(CALL)
    chunks: list[AIMessageChunk] = list(model.bind_tools([add]).stream("20 + 22?"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    (call,) = whole.tool_calls
    assert (call["name"], call["args"]) == ("add", {"a": 20, "b": 22})


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_typed_answers(model: Any, engine: ScriptedEngine, method: str) -> None:
    call = '<tool_call>\n{"name": "Sum", "arguments": {"value": 42}}\n</tool_call>'
    engine.say(call if method == "function_calling" else '{"value": 42}')
    assert model.with_structured_output(Sum, method=method).invoke("20 + 22?") == Sum(value=42)


@pytest.mark.model
def test_the_real_model_runs_a_tool_loop(model_folder: Path) -> None:
    with Engine(str(model_folder), quantization="int8", max_model_len=2048) as engine:
        app = create_app(AsyncEngine.of(engine), ServerConfig(served_model_name="tiny"))
        with listening(app) as address:
            for is_newer in (False, True):
                model = model_at(address, max_tokens=120, use_responses_api=is_newer)
                messages: list[BaseMessage] = [HumanMessage("Use the tool: how much is 1234 + 4321?")]
                messages.append(model.bind_tools([add], tool_choice="any", parallel_tool_calls=False).invoke(messages))
                messages += run_calls(messages[-1])  # pyright: ignore[reportArgumentType]
                assert messages[-1].content == "5555"
                assert "5555" in model.invoke(messages).text
