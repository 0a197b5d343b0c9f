"""The prompt of a chat: the model's own template of its messages and tools, and what may follow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sureact.agent.call_opening import OPEN_TAG
from sureact.agent.prompt_format import THINK_CLOSE, ends_in_think
from sureact.errors import ConfigError, TemplateVariableError
from sureact.server.api_error import ApiError, api_error_of
from sureact.server.chat_fields import TEMPLATE_FIELD
from sureact.tokens.chat_template import PromptText, TextSpan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sureact.engine import Engine
    from sureact.server.tool_plan import ToolPlan
    from sureact.tokens.chat_template import Message

_XML_CALL = "<function="


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A rendered prompt."""

    text: PromptText
    is_thinking: bool
    """Whether it ends inside of a thought."""
    may_think: bool
    """Whether a thought may begin after it."""


def render_chat_prompt(
    engine: Engine, values: Mapping[str, Any], tools: ToolPlan, *, param: str = "messages"
) -> ChatPrompt:
    """Render the messages of a request.

    Args:
        engine: has the template.
        values: the messages, and how they are rendered.
        tools: that are shown to the model.
        param: the field of the messages, to blame for what the template refuses.

    Raises:
        ApiError: the template refuses them, does not show the tools to the model, or the model is to go on with a
            message that is not its own.
    """
    messages: Sequence[Message] = values["messages"]
    goes_on = values["continue_final_message"]
    if goes_on:
        _check_final(messages, values)
    try:
        prompt = engine.render_chat(
            messages,
            tools=tools.functions,
            add_generation_prompt=values["add_generation_prompt"] and not goes_on,
            variables=values["chat_template_kwargs"],
        )
    except TemplateVariableError as error:
        raise api_error_of(error, param=f"{TEMPLATE_FIELD.name}.{error.name}") from error
    except ConfigError as error:
        raise api_error_of(error, param=param) from error
    if tools.functions:
        _check_shows_tools(prompt, engine.name)
    if goes_on:
        return ChatPrompt(_cut_after(prompt, messages[-1]["content"]), is_thinking=False, may_think=False)
    is_closed = _control_text(prompt).rstrip().endswith(THINK_CLOSE)
    return ChatPrompt(prompt, ends_in_think(prompt), may_think=values["add_generation_prompt"] and not is_closed)


def _check_final(messages: Sequence[Message], values: Mapping[str, Any]) -> None:
    last = messages[-1]
    content = last["content"]
    place = f"messages[{len(messages) - 1}]"
    if last["role"] != "assistant" or last.get("tool_calls") or not content.strip():
        raise ApiError(
            f"{place} cannot be gone on with: continue_final_message needs an assistant's message with a content and "
            "without tool_calls.",
            param="continue_final_message",
            code="invalid_value",
        )
    if content.endswith(" "):
        raise ApiError(
            f"{place}.content ends in a blank, which the model's tokens join with the word after it. Strip it.",
            param=f"{place}.content",
            code="invalid_value",
        )


def _check_shows_tools(prompt: PromptText, model_name: str) -> None:
    """Refuse tools that the model would never hear of, or calls in a form that is not decoded here."""
    control = _control_text(prompt)
    if OPEN_TAG in control and _XML_CALL not in control:
        return
    name = model_name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    what = "writes calls as XML" if _XML_CALL in control else f"does not tell the model of tools and {OPEN_TAG}"
    raise ApiError(
        f"The chat template of {name} {what}, so tools cannot be called. Leave tools out, or serve another model.",
        param="tools",
        code="unsupported_value",
    )


def _control_text(prompt: PromptText) -> str:
    return "".join(span.text for span in prompt.spans if span.is_control)


def _cut_after(prompt: PromptText, content: str) -> PromptText:
    """Cut a prompt off behind the last content in it, of which the template may have trimmed white space."""
    core = content.strip()
    start = prompt.text.rfind(core)
    if start < 0:
        raise ApiError(
            "The chat template rewrites the final message, so it cannot be gone on with.",
            param="continue_final_message",
            code="unsupported_value",
        )
    tail = content[len(content.rstrip()) :]
    end = start + len(core)
    if prompt.text.startswith(tail, end):
        end += len(tail)
    spans: list[TextSpan] = []
    for span in prompt.spans:
        if end <= 0:
            break
        spans.append(TextSpan(span.text[:end], span.is_control))
        end -= len(span.text)
    return PromptText(tuple(spans))
