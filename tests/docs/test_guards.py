"""The page's code runs on the real model, its defaults are those of the code, and its reasons are all there are."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import pytest

from sureact import RunawayLimits
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.cli.main import build_parser
from sureact.outputs import EarlyEnd, EarlyEndReason

PAGE = Path(__file__).parents[2] / "docs" / "guards.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS: list[str] = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
OPTIONS: list[str] = re.findall(r"^\| `(\w+)=(?![^`]*\()[^|]*\|", TEXT, re.MULTILINE)


@pytest.mark.model
@pytest.mark.usefixtures("model_folder")
def test_the_page_runs() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for block in BLOCKS:
        exec(compile(block, str(PAGE), "exec"), names)
    names["engine"].close()
    completion = names["output"].completions[0]
    assert isinstance(completion.value["id"], int)
    assert all(isinstance(end, EarlyEnd) for end in completion.early_ends)


def test_the_limits_of_the_table_are_the_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", TEXT, re.MULTILINE)
    assert {name: int(value.replace(",", "")) for name, value in rows} == asdict(RunawayLimits())


def test_every_reason_of_an_early_end_is_named() -> None:
    assert all(f"`{reason}`" in TEXT for reason in get_args(EarlyEndReason))


def test_every_option_of_the_table_is_one_of_the_agent_with_that_default() -> None:
    def search() -> str:
        """Search."""
        return ""

    assert set(OPTIONS) == {"on_repeat", "require_tools", "finish_after_error", "allowed_tools"}
    values = {"on_repeat": "mask", "require_tools": ["search"], "finish_after_error": False, "allowed_tools": {0: []}}
    for name in OPTIONS:
        option: dict[str, Any] = {name: values[name]}
        ReAct("q -> a", [search], lm=ScriptedModel([]), **option)
    assert ReAct("q -> a", [search], lm=ScriptedModel([])).on_repeat == "mask"


def test_the_command_of_the_page_is_one() -> None:
    (command,) = re.findall(r"`sureact (run --max-tokens[^`]*)`", TEXT)
    build_parser().parse_args([*command.split(), "question", "--tools", "T.py"])
