"""The functions of the Qwen ReAct tutorial: the prompt, the latest call, the tool, and the whole loop in color.

`print_run` is the agent, whose calls are decoded under the grammar. The others are for a loop of one's own, and for
text that another model wrote, which may hold anything.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sureact.agent.formats.qwen_react import (
    OBSERVATION,
    STOP_WORDS,
    parameters_json,
    react_prompt,
    tool_block,
)
from sureact.agent.observation import error_text
from sureact.agent.react import ReAct
from sureact.agent.run_printer import RunPrinter
from sureact.agent.tool import Tool, tools_by_name
from sureact.agent.tool_call import run_tool
from sureact.errors import ConfigError, ToolExecutionError

if TYPE_CHECKING:
    from typing import TextIO

    from sureact.agent.language_model import LanguageModel
    from sureact.agent.prediction import Prediction

__all__ = [
    "STOP_WORDS",
    "ParsedCall",
    "build_prompt",
    "parse_latest_call",
    "print_run",
    "read_arguments",
    "use_tool",
]

_LABEL = re.compile(r"^[ \t]*(Thought|Action Input|Action|Observation|Final Answer)[ \t]*[:：]", re.MULTILINE)
_FENCE = re.compile(r"```\w*[ \t]*\n?(.*?)\n?[ \t]*```", re.DOTALL)
_MIN_LABEL_START = 3  # fewer letters of `Observation:` at the end may be a part of an argument
_NOTHING = ("", "None", "null")
_STARTS_OF_JSON5 = ("{", "[", "'", "/")
_INSTRUCTIONS = "Answer the question, with the help of the tools where they help."

ToolLike = Tool | Callable[..., object] | Mapping[str, Any]
"""A tool, a function, or a dictionary of the tutorial with its `tool_api`."""


class ParsedCall(NamedTuple):
    """A call as the model wrote it."""

    tool_name: str
    arguments: str
    """As text, not read yet."""
    text: str
    """The text up to the end of the call; the observation is appended to it."""


def build_prompt(
    question: str,
    tools: Iterable[ToolLike],
    *,
    template: str | None = None,
    tool_template: str | None = None,
) -> str:
    """Return the prompt of a question, to be sent as the message of the user.

    Args:
        question: what is asked.
        tools: what the model may call.
        template: the whole prompt with `{tool_descs}`, `{tool_names}` and `{query}`, such as the tutorial's own, which
            the first Qwen chat models know word for word; None for ours.
        tool_template: one tool in it, with `{name_for_model}`, `{name_for_human}`, `{description_for_model}` and
            `{parameters}`; only with `template`.

    Raises:
        ConfigError: a template holds another field, or does not show the question.
        ToolDefinitionError: a tool cannot be described.
    """
    named = tools_by_name(cast("Iterable[Tool]", tools))
    if template is None:
        if tool_template is not None:
            raise ConfigError("tool_template is given without template; give both, or neither for our own prompt.")
        return react_prompt(_INSTRUCTIONS, named.values(), f" {question.strip()}", "the answer to the question")
    blocks = [
        _filled("tool_template", tool_template, _fields(tool)) if tool_template else tool_block(tool)
        for tool in named.values()
    ]
    fields = {"tool_descs": "\n\n".join(blocks), "tool_names": ",".join(named), "query": question.strip()}
    if "{query}" not in template:
        raise ConfigError("template does not show the question; write {query} where it stands.")
    return _filled("template", template, fields).strip()


def parse_latest_call(text: str) -> ParsedCall | None:
    """Return the last complete call in a text that a model wrote; None when there is none, or an answer ends the text.

    `Final Answer:` ends it unless an observation stands between it and the call: no tool gave that observation, so what
    the model made of it is no answer. Labels count at the start of a line, with a full-width colon too. What follows
    the call, such as a begun `Observation:`, is cut off.
    """
    labels = list(_LABEL.finditer(text))
    names = [label[1] for label in labels]
    at = next((i for i in range(len(names) - 2, -1, -1) if names[i : i + 2] == ["Action", "Action Input"]), None)
    if at is None:
        return None
    before = names[:at][::-1]
    after = names[at + 2 :]
    if "Final Answer" in _up_to_observation(before) or "Final Answer" in _up_to_observation(after):
        return None
    end = labels[at + 2].start() if after else len(text) - _begun_label_len(text)
    arguments = text[labels[at + 1].end() : end].strip()
    name = text[labels[at].end() : labels[at + 1].start()].strip()
    return ParsedCall(name, arguments, text[:end].rstrip()) if name else None


def use_tool(call: ParsedCall, tools: Iterable[ToolLike]) -> str:
    """Run a parsed call and return the observation.

    An unknown tool, arguments that cannot be read or are refused, and an error of the tool are observations too.

    Raises:
        ConfigError: see `read_arguments`.
        ToolDefinitionError: a tool cannot be described.
    """
    named = tools_by_name(cast("Iterable[Tool]", tools))
    tool = named.get(call.tool_name)
    if tool is None:
        return f"There is no tool {call.tool_name!r}; there are {', '.join(named) or 'none'}."
    try:
        args = read_arguments(tool, call.arguments)
    except ToolExecutionError as error:
        return error_text(tool.name, error)
    return run_tool(tool, args).observation


def read_arguments(tool: Tool, text: str) -> dict[str, Any]:
    """Read arguments that a model wrote freely.

    JSON and JSON5 are read, between triple backticks too. What is no object is the argument of a tool that has only
    one, as in `Action Input: Paris`; but not where nothing is given, nor what begins as an object or a list and cannot
    be read, such as one that was cut off. The arguments are not judged by the tool's schema.

    Raises:
        ToolExecutionError: the text cannot be read.
        ConfigError: the text looks like JSON5 and the package json5 is missing; the message names the extra.
    """
    fenced = _FENCE.fullmatch(text.strip())
    text = fenced[1] if fenced else text.strip()
    is_nothing = text in _NOTHING
    if is_nothing and not tool.parameters.get("required"):
        return {}
    values = _read(text)
    if values and isinstance(values[0], dict):
        return cast("dict[str, Any]", values[0])
    is_broken = not values and text.startswith(("{", "["))
    if len(tool.args) == 1 and not is_nothing and not is_broken:
        (name,) = tool.args
        for value in (*values, text):
            with suppress(ToolExecutionError):
                tool.check({name: value})
                return {name: value}
    raise ToolExecutionError(f"The arguments {text!r} are no JSON object with {', '.join(tool.args) or 'no keys'}.")


def print_run(
    question: str,
    tools: Iterable[ToolLike],
    *,
    lm: LanguageModel | None = None,
    max_iters: int = 20,
    file: TextIO | None = None,
    color: bool | None = None,
) -> Prediction:
    """Answer a question with the tools, and print the run while it goes on: the model in green, the tools in blue.

    Args:
        question: what is asked.
        tools: what the model may call.
        lm: the model; None for the default one, see `default_model`.
        max_iters: most steps.
        file: where to print; None for standard output.
        color: whether to color; None for a terminal on which `NO_COLOR` is not set.

    Returns:
        The `answer`, with `trajectory` and the rest of what `ReAct` returns.

    Raises:
        SureactError: see `ReAct`.
    """
    printer = RunPrinter(file or sys.stdout, color)
    agent = ReAct(
        "question -> answer",
        cast("Iterable[Tool]", tools),
        lm=lm,
        max_iters=max_iters,
        prompt_format="qwen_react",
        on_event=printer,
    )
    return agent(question=question)


def _fields(tool: Tool) -> dict[str, str]:
    return {
        "name_for_model": tool.name,
        "name_for_human": tool.title,
        "description_for_model": tool.desc,
        "parameters": parameters_json(tool),
    }


def _filled(option: str, template: str, fields: Mapping[str, str]) -> str:
    try:
        return template.format_map(fields)
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        raise ConfigError(
            f"{option} cannot be filled in ({type(error).__name__}: {error}); its fields are "
            f"{', '.join(f'{{{name}}}' for name in fields)}, and other braces are doubled."
        ) from error


def _up_to_observation(names: list[str]) -> list[str]:
    return names[: names.index("Observation")] if "Observation" in names else names


def _begun_label_len(text: str) -> int:
    """Return the length of a last line that is a begun `Observation:`, as a stop on token ids can leave one."""
    last_line = text.rpartition("\n")[2]
    begun = last_line.strip()
    return len(last_line) if len(begun) >= _MIN_LABEL_START and OBSERVATION.startswith(begun) else 0


def _read(text: str) -> list[Any]:
    """Return what the text says as JSON or JSON5, or nothing."""
    with suppress(ValueError, RecursionError):
        return [json.loads(text, strict=False)]
    if not text.startswith(_STARTS_OF_JSON5):
        return []
    try:
        import json5
    except ImportError as error:
        raise ConfigError(
            f"{text!r} is not JSON; to read what is nearly JSON, install the extra: pip install 'sureact[json5]'."
        ) from error
    with suppress(ValueError, RecursionError):
        return [json5.loads(text)]
    return []
