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
from tests.engine.server.test_chat_turn import CALL, THOUGHT, TOOLS


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


FUNCTIONS: list[Any] = [tool["function"] for tool in TOOLS]
FLAT_TOOLS: list[Any] = [{"type": "function", **function} for function in FUNCTIONS]


def test_responses(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.say(f"{THOUGHT}Hello 😀")
    response = openai_client.responses.create(model="tiny", input="hi", instructions="be brief", store=False)
    assert (response.output_text, response.status) == ("Hello 😀", "completed")
    (thought, _) = response.output
    assert thought.type == "reasoning"
    assert thought.content is not None
    assert thought.content[0].text == "Let me\nsee."
    assert response.usage is not None
    assert response.usage.output_tokens_details.reasoning_tokens > 0


def test_tools_run_a_loop_of_responses(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.say(f"{THOUGHT}Let me see.\n{CALL}")
    items: list[Any] = [{"role": "user", "content": "hi"}]
    response = openai_client.responses.create(model="tiny", input=items, tools=FLAT_TOOLS)
    items += response.output
    (call,) = [item for item in response.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "rain"})
    engine.say("It rains.")
    response = openai_client.responses.create(model="tiny", input=items, tools=FLAT_TOOLS)
    assert response.output_text == "It rains."
    items += [*response.output, {"role": "user", "content": "thanks"}]
    engine.say("Bye.")
    assert openai_client.responses.create(model="tiny", input=items, tools=FLAT_TOOLS).output_text == "Bye."


def test_parsed_responses(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.say('{"name": "Paris", "size": "large"}')
    response = openai_client.responses.parse(model="tiny", input="hi", text_format=City)
    assert response.output_parsed == City(name="Paris", size="large")
    items: list[Any] = [*response.output, {"role": "user", "content": "again"}]
    assert openai_client.responses.parse(model="tiny", input=items, text_format=City).output_parsed is not None


class get_weather(BaseModel):  # noqa: N801  the client calls the tool after it
    """A tool that the client writes itself."""

    city: str


def test_parsed_calls_of_responses(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.say(CALL)
    tool = openai.pydantic_function_tool(get_weather)["function"]
    tools: list[Any] = [{"type": "function", **tool}]
    response = openai_client.responses.parse(model="tiny", input="hi", tools=tools)
    (call,) = response.output
    assert call.type == "function_call"
    assert call.parsed_arguments == {"city": "Paris"}


def test_the_clients_own_stream_of_responses(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.say(f"{THOUGHT}Let me see.\n{CALL}")
    with openai_client.responses.stream(model="tiny", input="hi", tools=FLAT_TOOLS) as stream:
        events = list(stream)
        response = stream.get_final_response()
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert (text, response.output_text) == ("Let me see.", "Let me see.")
    *_, last = [event for event in events if event.type == "response.function_call_arguments.delta"]
    assert json.loads(last.snapshot) == {"city": "Paris"}
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]


def test_the_clients_own_stream_of_parsed_responses(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.say('{"name": "Paris", "size": "large"}')
    with openai_client.responses.stream(model="tiny", input="hi", text_format=City) as stream:
        stream.until_done()
        assert stream.get_final_response().output_parsed == City(name="Paris", size="large")


def test_plain_streams_of_responses(openai_client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.say("Hello 😀")
    events = list(openai_client.responses.create(model="tiny", input="hi", stream=True, max_output_tokens=1))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    *_, last = events
    assert last.type == "response.incomplete"
    assert last.response.incomplete_details is not None
    assert last.response.incomplete_details.reason == "max_output_tokens"


def test_what_responses_refuse_has_its_class(openai_client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.responses.create(model="tiny", input="hi", previous_response_id="resp_1")
    assert refused.value.param == "previous_response_id"
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.responses.create(model="tiny", input="hi", tools=[{"type": "web_search"}])
    assert refused.value.param == "tools[0].type"
    with pytest.raises(openai.NotFoundError):
        openai_client.responses.retrieve("resp_1")


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
