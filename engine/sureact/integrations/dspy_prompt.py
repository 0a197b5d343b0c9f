"""What the model reads of a request of dspy: its chat template's text, with tools and calls where it writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from sureact.constraints.call_grammar import ControlToken, ToolCallBranch, tool_call_grammar
from sureact.integrations.dspy_fields import with_definitions_on_top

if TYPE_CHECKING:
    from dspy import lm15

    from sureact.constraints.call_grammar import ToolCallConstraint
    from sureact.engine_verbs import EngineVerbs
    from sureact.integrations.dspy_request import Ask, CallWish
    from sureact.tokens.chat_template import Message, PromptText

OPEN_TAG = "<tool_call>"
_CLOSE_TAG = "</tool_call>"
_BEFORE_NAME = '\n{"name": "'
_BEFORE_ARGUMENTS = '", "arguments": '
_AFTER_ARGUMENTS = "}\n"

_PROBE = "sureact-probe"
"""Looked for in what a template makes of a message that holds it."""

_TOOLS_NOTE = (
    "You may call functions. Each is described by a line of JSON:\n{tools}\n"
    'A call is the JSON {{"name": ..., "arguments": ...}} between {open_tag} and {close_tag}.'
)


class PromptWriter:
    """Renders requests for one engine in the form that its model was trained on for tools, if it knows one."""

    def __init__(self, engine: EngineVerbs) -> None:
        self._engine = engine

    def render(self, ask: Ask) -> PromptText:
        """Return the prompt of a request.

        Raises:
            ConfigError: the model has no chat template, or it refuses the messages.
        """
        messages = [self._with_calls(message) for message in ask.messages]
        tools = [_notation(tool) for tool in ask.tools]
        if tools and not self._writes_tools:
            return self._engine.render_chat(_with_note(messages, tools))
        return self._engine.render_chat(messages, tools=tools)

    def call_constraint(self, wish: CallWish) -> ToolCallConstraint:
        """Return the grammar of one call of the tools that may be called.

        Raises:
            ConfigError: a tool's arguments are no object, or two types in them share a name.
        """
        branches = [ToolCallBranch(tool.name, with_definitions_on_top(tool.parameters)) for tool in wish.tools]
        open_tag, close_tag = (ControlToken(tag) if self._has_control_tags else tag for tag in (OPEN_TAG, _CLOSE_TAG))
        return tool_call_grammar(
            branches,
            prefix=(open_tag, _BEFORE_NAME),
            delimiter=_BEFORE_ARGUMENTS,
            suffix=(_AFTER_ARGUMENTS, close_tag),
        )

    @cached_property
    def tag_ids(self) -> tuple[int, ...]:
        """Token ids of what opens a call."""
        return tuple(self._engine.encode(OPEN_TAG, parse_control_tokens=True))

    @cached_property
    def _has_control_tags(self) -> bool:
        tags = [self._engine.encode(tag, parse_control_tokens=True) for tag in (OPEN_TAG, _CLOSE_TAG)]
        return all(len(ids) == 1 and ids[0] in self._engine.vocabulary.control_ids for ids in tags)

    @cached_property
    def _writes_tools(self) -> bool:
        function: dict[str, object] = {"name": _PROBE, "description": "", "parameters": {"type": "object"}}
        tool: dict[str, object] = {"type": "function", "function": function}
        return _PROBE in self._engine.render_chat([{"role": "user", "content": "?"}], tools=[tool]).text

    @cached_property
    def _writes_calls(self) -> bool:
        call: dict[str, object] = {"type": "function", "function": {"name": _PROBE, "arguments": {}}}
        asked: Message = {"role": "user", "content": "?"}
        called: Message = {"role": "assistant", "content": "", "tool_calls": [call]}
        return _PROBE in self._engine.render_chat([asked, called], add_generation_prompt=False).text

    def _with_calls(self, message: Message) -> Message:
        """Write the calls of a message as text where the template leaves them out."""
        if "tool_calls" not in message or self._writes_calls:
            return message
        texts = [message["content"]] if message["content"] else []
        for call in message["tool_calls"]:
            function = cast("Mapping[str, Any]", call["function"])
            args = json.dumps(function["arguments"], ensure_ascii=False)
            body = f"{_BEFORE_NAME}{function['name']}{_BEFORE_ARGUMENTS}{args}{_AFTER_ARGUMENTS}"
            texts.append(f"{OPEN_TAG}{body}{_CLOSE_TAG}")
        return {"role": message["role"], "content": "\n".join(texts)}


def _notation(tool: lm15.FunctionTool) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _with_note(messages: list[Message], tools: list[dict[str, object]]) -> list[Message]:
    """Describe the tools in the system message, for templates that have no place for them."""
    lines = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    note = _TOOLS_NOTE.format(tools=lines, open_tag=OPEN_TAG, close_tag=_CLOSE_TAG)
    if messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{messages[0]['content']}\n\n{note}"}, *messages[1:]]
    return [{"role": "system", "content": note}, *messages]
