"""The official client of the protocol, over a loopback socket."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel
from tests.engine.server.scripted_engine import ScriptedEngine
from tests.engine.server.test_chat_turn import CALL, TOOLS


class City(BaseModel):
    """A schema that the client writes itself."""

    name: str
    size: Literal["small", "large"]


@pytest.fixture
def openai_client(served: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_chats(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.say("Hello 😀")
    answer = openai_client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "hi"}])
    assert answer.choices[0].message.content == "Hello 😀"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None


def test_streams(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.say("Hello 😀")
    chunks = list(
        openai_client.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "Hello 😀"
    assert chunks[-1].usage is not None


def test_tools_run_a_loop(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.say(f"Let me see.\n{CALL}")
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    answer = openai_client.chat.completions.create(model="tiny", messages=messages, tools=TOOLS)  # pyright: ignore[reportArgumentType]
    message = answer.choices[0].message
    assert message.tool_calls is not None
    (call,) = message.tool_calls
    assert call.type == "function"
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    engine.say("It rains.")
    messages += [message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    answer = openai_client.chat.completions.create(model="tiny", messages=messages, tools=TOOLS)  # pyright: ignore[reportArgumentType]
    assert answer.choices[0].message.content == "It rains."


def test_the_clients_own_stream_of_calls(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.say(CALL)
    with openai_client.chat.completions.stream(
        model="tiny",
        messages=[{"role": "user", "content": "hi"}],
        tools=TOOLS,  # pyright: ignore[reportArgumentType]
    ) as stream:
        kinds = {event.type for event in stream}
        message = stream.get_final_completion().choices[0].message
    assert "tool_calls.function.arguments.done" in kinds
    assert message.tool_calls is not None
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Paris"}


def test_parsed_answers(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.say('{"name": "Paris", "size": "large"}')
    answer = openai_client.chat.completions.parse(
        model="tiny", messages=[{"role": "user", "content": "hi"}], response_format=City
    )
    assert answer.choices[0].message.parsed == City(name="Paris", size="large")


def test_fields_beyond_the_protocol(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    answer = openai_client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "hi"}],
        extra_body={"structured_outputs": {"choice": ["yes", "no"]}},
    )
    assert answer.choices[0].message.content in ("yes", "no")


def test_texts_and_models(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.say(" there")
    assert openai_client.completions.create(model="tiny", prompt="Hello").choices[0].text == " there"
    assert [model.id for model in openai_client.models.list()] == ["tiny"]
    assert openai_client.models.retrieve("tiny").id == "tiny"


def test_the_page_of_the_docs_runs(served: str, engine: ScriptedEngine) -> None:
    page = Path(__file__).parents[3] / "docs" / "server.md"
    (block,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    engine.say(CALL)
    names: dict[str, Any] = {}
    code = block.replace("http://127.0.0.1:8000", served).replace("qwen2.5-coder-0.5b-instruct", "tiny")
    exec(compile(code, str(page), "exec"), names)
    names["client"].close()
    assert names["answer"].choices[0].message.tool_calls[0].function.name == "get_weather"


def test_errors_have_their_classes(openai_client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        openai_client.chat.completions.create(model="gpt-4", messages=[{"role": "user", "content": "hi"}])
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        openai_client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "hi"}], reasoning_effort="high"
        )
    assert bad.value.param == "reasoning_effort"
