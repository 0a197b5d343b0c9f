"""Prompts of four kinds, made of this repository's own texts: instructions, code, JSON, and steps of an agent."""

import ast
import json
import re
from collections.abc import Iterator
from itertools import chain, cycle, islice, product
from pathlib import Path
from typing import Any

from benchmarks.agent.bench_formats import TASKS, read_lines
from benchmarks.agent.task_tools import TOOLS

from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.tool_call import run_tool
from sureact.agent.trajectory import Step
from sureact.tokens.chat_template import ChatTemplate, Message, PromptText, TextSpan

ROOT = Path(__file__).parents[2]

_SHORTEST_TEXT, _LONGEST_TEXT = 80, 700
"""Characters of a text that a prompt quotes: enough to say something, short enough to be scored quickly."""

_THOUGHT = "I look this up first."

_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)

_REQUESTS = (
    "Explain in three sentences what this means:\n\n{}",
    "Rewrite this for a reader who has never used a language model:\n\n{}",
    "Write five questions that this answers:\n\n{}",
    "List the claims of this text, one a line:\n\n{}",
)
_CODE_REQUESTS = ("Write tests with pytest for this function:\n\n{}", "Explain this function step by step:\n\n{}")
_JSON_REQUESTS = (
    "Write three different JSON documents that this JSON Schema allows:\n\n{}",
    "Describe in words what this JSON Schema allows and what it refuses:\n\n{}",
)


def prompts(template: ChatTemplate, num_prompts: int) -> list[PromptText]:
    """Return the first prompts, kind after kind in turn, so that few are as mixed as many.

    Args:
        template: of the model.
        num_prompts: how many; fewer are returned when the texts do not suffice.
    """
    kinds = [_instructions(template), _code(template), _json(template), _agent_steps(template)]
    return list(islice(_in_turn(kinds), num_prompts))


def _in_turn(kinds: list[Iterator[PromptText]]) -> Iterator[PromptText]:
    while kinds:
        for kind in list(kinds):
            try:
                yield next(kind)
            except StopIteration:
                kinds.remove(kind)


def _instructions(template: ChatTemplate) -> Iterator[PromptText]:
    files = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md")
    texts = (_FENCED.sub("", file.read_text(encoding="utf-8")) for file in files)
    paragraphs = (paragraph.strip() for text in texts for paragraph in text.split("\n\n"))
    prose = [text for text in paragraphs if not text.startswith(("|", "#")) and _is_quotable(text)]
    for request, text in product(_REQUESTS, prose):
        yield _chat(template, request.format(text))


def _code(template: ChatTemplate) -> Iterator[PromptText]:
    """Yield requests about functions, and every third time the first two thirds of one to go on with."""
    folders = (ROOT / "examples", ROOT / "benchmarks" / "agent", ROOT / "engine" / "sureact" / "agent")
    paths = chain.from_iterable(sorted(folder.glob("*.py")) for folder in folders)
    functions = filter(_is_quotable, chain.from_iterable(map(_functions, paths)))
    for index, text in enumerate(functions):
        if index % 3 == 2:
            lines = text.splitlines(keepends=True)
            yield PromptText((TextSpan("".join(lines[: 2 * len(lines) // 3]), is_control=False),))
        else:
            yield _chat(template, _CODE_REQUESTS[index % 3].format(text))


def _functions(path: Path) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        text = ast.get_source_segment(source, node) if isinstance(node, ast.FunctionDef) else None
        if text and text.count("\n") >= 3:
            yield text


def _json(template: ChatTemplate) -> Iterator[PromptText]:
    paths = sorted((ROOT / "tests" / "data" / "schemas").glob("*.json"))
    schemas = (json.dumps(json.loads(path.read_text(encoding="utf-8"))["schema"]) for path in paths)
    for request, schema in zip(cycle(_JSON_REQUESTS), filter(_is_quotable, schemas), strict=False):
        yield _chat(template, request.format(schema))


def _agent_steps(template: ChatTemplate) -> Iterator[PromptText]:
    """Yield the start of each task, then each task after its first call, and so on."""
    tasks = read_lines(TASKS)
    for num_steps in range(4):
        for task in tasks:
            if num_steps < len(task["reference"]):
                yield _agent_prompt(template, task, num_steps)


def _agent_prompt(template: ChatTemplate, task: dict[str, Any], num_steps: int) -> PromptText:
    used = {call["tool"] for call in task["reference"]}
    tools = [tool for tool in TOOLS if tool.__name__ in used]
    agent = ReAct("question: str -> answer: str", tools, lm=_TemplateOnly(template), prompt_format="fields")
    prompt = agent.prompt_format.opening({"question": task["question"]})
    for index, call in enumerate(task["reference"][:num_steps]):
        name, args = call["tool"], call["args"]
        observation = run_tool(agent.tools[name], args).observation
        step = Step(index=index, thought=_THOUGHT, tool_name=name, tool_args=args, observation=observation)
        prompt += agent.prompt_format.step(step)
    return prompt + agent.prompt_format.thought_start


class _TemplateOnly(ScriptedModel):
    """A model that says nothing and renders with a real model's template."""

    def __init__(self, template: ChatTemplate) -> None:
        super().__init__(())
        self._template = template

    def render_chat(self, messages: Any, *, tools: Any = (), add_generation_prompt: bool = True) -> PromptText:
        return self._template.render(messages, tools, add_generation_prompt)


def _chat(template: ChatTemplate, request: str) -> PromptText:
    return template.render([Message(role="user", content=request)])


def _is_quotable(text: str) -> bool:
    return _SHORTEST_TEXT <= len(text) <= _LONGEST_TEXT
