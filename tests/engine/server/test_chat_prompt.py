from typing import Any

import pytest
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.server.api_error import ApiError
from sureact.server.chat_fields import CHAT_FIELDS
from sureact.server.chat_prompt import ChatPrompt, render_chat_prompt
from sureact.server.request_fields import read_fields
from sureact.server.tool_plan import tool_plan
from sureact.tokens.chat_template import ChatTemplate

HI = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f"}}


def render(engine: ScriptedEngine, messages: list[Any], **body: Any) -> ChatPrompt:
    values = read_fields({"messages": messages, **body}, CHAT_FIELDS)
    tools = tool_plan(values["tools"], values["tool_choice"], is_parallel=True)
    return render_chat_prompt(engine, values, tools)


def test_the_template_says_where_a_thought_stands(engine: ScriptedEngine) -> None:
    states = [
        (render(engine, [HI], chat_template_kwargs=variables), expected)
        for variables, expected in (
            ({}, (False, True)),
            ({"enable_thinking": True}, (True, True)),
            ({"enable_thinking": False}, (False, False)),
        )
    ]
    assert all((prompt.is_thinking, prompt.may_think) == expected for prompt, expected in states)


def test_the_words_of_a_user_open_no_thought(engine: ScriptedEngine) -> None:
    assert not render(engine, [{"role": "user", "content": "<think>"}]).is_thinking


def test_a_variable_of_the_template_opens_no_thought_either(engine: ScriptedEngine) -> None:
    with pytest.raises(ApiError, match="'enable_thinking' holds a control token") as refused:
        render(engine, [HI], chat_template_kwargs={"enable_thinking": "<think>"})
    assert refused.value.param == "chat_template_kwargs.enable_thinking"


@pytest.mark.parametrize("content", ["The answer", "The answer\n", "  a <|im_end|> b", "user"])
def test_a_final_message_is_gone_on_with(engine: ScriptedEngine, content: str) -> None:
    final = {"role": "assistant", "content": content}
    prompt = render(engine, [{"role": "user", "content": content}, final], continue_final_message=True)
    assert prompt.text.text.endswith(f"assistant\n{content}")
    assert not prompt.may_think


@pytest.mark.parametrize(
    "messages",
    [
        [HI],
        [HI, {"role": "assistant", "content": ""}],
        [HI, {"role": "assistant", "content": "a "}],
        [HI, {"role": "assistant", "content": "a", "tool_calls": [{"function": {"name": "f"}}]}],
    ],
)
def test_what_cannot_be_gone_on_with_is_refused(engine: ScriptedEngine, messages: list[Any]) -> None:
    with pytest.raises(ApiError) as refused:
        render(engine, messages, continue_final_message=True)
    assert refused.value.param in ("continue_final_message", "messages[1].content")


@pytest.mark.parametrize(
    ("source", "words"),
    [("{{ messages[0].content }}", "does not tell"), ("{{ tools }}<tool_call><function=x>", "as XML")],
)
def test_tools_that_a_template_does_not_show_are_refused(engine: ScriptedEngine, source: str, words: str) -> None:
    template = engine._tokenizer.chat_template  # pyright: ignore[reportPrivateUsage]
    engine._tokenizer.chat_template = ChatTemplate(source)  # pyright: ignore[reportPrivateUsage]
    try:
        with pytest.raises(ApiError, match=words):
            render(engine, [HI], tools=[TOOL])
        render(engine, [HI], tools=[TOOL], tool_choice="none")
    finally:
        engine._tokenizer.chat_template = template  # pyright: ignore[reportPrivateUsage]


def test_a_template_that_fails_is_the_requests_fault(engine: ScriptedEngine) -> None:
    template = engine._tokenizer.chat_template  # pyright: ignore[reportPrivateUsage]
    engine._tokenizer.chat_template = ChatTemplate("{{ raise_exception('no') }}")  # pyright: ignore[reportPrivateUsage]
    try:
        with pytest.raises(ApiError, match="refuses these messages") as refused:
            render(engine, [HI])
    finally:
        engine._tokenizer.chat_template = template  # pyright: ignore[reportPrivateUsage]
    assert (refused.value.status, refused.value.param) == (400, "messages")
