from pathlib import Path
from typing import Any

import pytest

from sureact.agent.predict import ChainOfThought, Predict
from sureact.agent.react import ReAct
from sureact.agent.react_v2 import ReActV2
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.tool import Tool
from sureact.errors import ConfigError, ToolDefinitionError
from sureact.option_values import require_bool, require_function, require_path, require_text, require_whole


def test_whole_numbers_of_the_range_pass():
    assert [require_whole("n", value) for value in (1, 10**9)] == [1, 10**9]
    assert [require_whole("n", value, least=0, most=3) for value in (0, 3)] == [0, 3]


@pytest.mark.parametrize("value", [None, "3", 2.0, 2.5, True, [], 0, -1])
def test_what_is_no_whole_number_of_the_range_is_refused(value: object):
    with pytest.raises(ConfigError, match=r"^n is .*; it must be a whole number, at least 1\.$"):
        require_whole("n", value)


def test_a_range_with_an_end_is_told():
    with pytest.raises(ConfigError, match=r"^n is 17; it must be a whole number, from 1 to 16\.$"):
        require_whole("n", 17, most=16)


def test_bools_pass_and_nothing_else():
    assert [require_bool("b", value) for value in (True, False)] == [True, False]
    for value in (None, 0, 1, "yes"):
        with pytest.raises(ConfigError, match="it must be True or False"):
            require_bool("b", value)


def test_texts_functions_and_paths_may_be_missing_and_must_else_be_such():
    require_text("t", "")
    require_function("f", print)
    require_path("p", "a.jsonl")
    require_path("p", Path("a.jsonl"))
    for require in (require_text, require_function, require_path):
        require("x", None)
        with pytest.raises(ConfigError, match=r"^x is 3; it must be .*, or None\.$"):
            require("x", 3)
    with pytest.raises(ConfigError, match="path of a file"):
        require_path("p", "")


def look_up(city: str) -> str:
    """Look a city up."""
    return city


WRONG: list[dict[str, Any]] = [
    *({"max_iters": value} for value in ("3", None, 2.5, True, 0)),
    *({"limits": value} for value in ({"thought": 3}, 3, [])),
    *({"on_event": value} for value in ("print", 3)),
    *({"callbacks": value} for value in (3, [3])),
    *({"trace": value} for value in (3, True, "")),
    *({"dry_run": value} for value in (1, None)),
    {"approve": "yes"},
]


@pytest.mark.parametrize("agent", [ReAct, ReActV2])
@pytest.mark.parametrize("options", WRONG, ids=str)
def test_an_option_of_an_agent_that_is_of_another_type_is_refused_at_once(agent: Any, options: dict[str, Any]):
    with pytest.raises(ConfigError, match=f"{next(iter(options)).rstrip('s')}.* is "):
        agent("question -> answer", [look_up], lm=ScriptedModel([]), **options)


@pytest.mark.parametrize("options", [{"otel": 1}, {"prompt_format": ""}, {"prompt_format": 0}], ids=str)
def test_an_option_of_react_alone_is_refused_too(options: dict[str, Any]):
    with pytest.raises(ConfigError):
        ReAct("question -> answer", [look_up], lm=ScriptedModel([]), **options)


class AsyncListener:
    async def __call__(self, event: object) -> None:
        """Never awaited."""


async def listen(event: object) -> None:
    """Never awaited."""


@pytest.mark.parametrize("listener", [listen, AsyncListener()])
@pytest.mark.parametrize("module", [ReAct, ReActV2, Predict])
def test_a_listener_that_would_never_run_is_refused(module: Any, listener: Any):
    options: dict[str, Any] = {} if module is Predict else {"tools": []}
    with pytest.raises(ConfigError, match=r"on_event is .*asynchronous"):
        module("question -> answer", lm=ScriptedModel([]), on_event=listener, **options)


@pytest.mark.parametrize("agent", [ReAct, ReActV2])
def test_the_steps_of_one_run_are_judged_like_those_of_all(agent: Any):
    with pytest.raises(ConfigError, match="max_iters is '2'; it must be a whole number, at least 1"):
        agent("question -> answer", [], lm=ScriptedModel([]))(question="?", max_iters="2")


@pytest.mark.parametrize("agent", [ReAct, ReActV2])
@pytest.mark.parametrize(
    "tools", [None, look_up, "look_up", {"look_up": look_up}, 3], ids=lambda tools: type(tools).__name__
)
def test_tools_that_are_no_list_are_refused(agent: Any, tools: Any):
    with pytest.raises(ToolDefinitionError, match="it must be a list of tools"):
        agent("question -> answer", tools, lm=ScriptedModel([]))


@pytest.mark.parametrize("module", [Predict, ChainOfThought])
@pytest.mark.parametrize("options", [{"on_event": "x"}, {"callbacks": 3}, {"demos": 3}, {"max_tokens": "5"}], ids=str)
def test_an_option_of_a_predictor_that_is_of_another_type_is_refused_at_once(module: Any, options: dict[str, Any]):
    with pytest.raises(ConfigError, match=f"{next(iter(options))} is "):
        module("question -> answer", lm=ScriptedModel([]), **options)


@pytest.mark.parametrize(
    "options", [{"repeatable": "x"}, {"idempotent": None}, {"isolate": "yes"}, {"desc": 3}, {"title": 3}], ids=str
)
def test_an_option_of_a_tool_that_is_of_another_type_is_refused(options: dict[str, Any]):
    ((name, value),) = options.items()
    with pytest.raises(ConfigError, match=f"^{name} is {value!r}; it must be "):
        Tool(look_up, **options)
