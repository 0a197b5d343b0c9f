"""The operator's own beginning of prompts, which all keys may share in the cache: it is nobody's secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sureact.errors import ConfigError, SureactError
from sureact.server.chat_messages import read_messages
from sureact.server.chat_prompt import render_chat_prompt
from sureact.server.tool_plan import read_tools, tool_plan

if TYPE_CHECKING:
    from sureact.engine import Engine


def declare_public_prefix(engine: Engine, path: str) -> int:
    """Let all keys share what a file says, and return how many tokens that are.

    Args:
        engine: gets the prefix.
        path: a text, in which the names of control tokens are control tokens; or, as `.json`, an object with
            `messages` and perhaps `tools`, as a chat begins.

    Raises:
        ConfigError: the file cannot be read, or holds something else.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The public prefix {path} cannot be read: {error}.") from error
    try:
        ids = _chat_ids(engine, text) if path.endswith(".json") else engine.encode(text, parse_control_tokens=True)
        engine.declare_public_prefix(ids)
    except SureactError as error:
        raise ConfigError(f"The public prefix {path} is none: {error}") from error
    return len(ids)


def _chat_ids(engine: Engine, text: str) -> list[int]:
    try:
        chat = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it is not JSON: {error}.") from error
    if not isinstance(chat, dict) or not {"messages"} <= set(chat) <= {"messages", "tools"}:
        raise ConfigError("it must be an object with messages, and perhaps tools.")
    tools = read_tools(chat.get("tools") or [], "tools")
    values = {
        "messages": read_messages(chat["messages"], "messages"),
        "tools": tools,
        "add_generation_prompt": False,
        "continue_final_message": False,
        "chat_template_kwargs": None,
    }
    return engine.encode(render_chat_prompt(engine, values, tool_plan(tools, None, is_parallel=True)).text)
