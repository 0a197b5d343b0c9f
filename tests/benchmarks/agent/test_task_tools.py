import json
import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks.agent.task_tools import TOOLS, calculator, calendar, convert_units, query_database, read_file

from sureact.agent.observation import observation_text
from sureact.agent.tool import tools_by_name

TASKS = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "benchmarks" / "agent" / "tasks.jsonl").read_text().splitlines()
]


def test_there_are_24_tasks_that_use_every_tool():
    assert len({task["id"] for task in TASKS}) == 24
    assert {call["tool"] for task in TASKS for call in task["reference"]} == {tool.__name__ for tool in TOOLS}
    assert sum(len(task["reference"]) >= 2 for task in TASKS) == 24


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["id"])
def test_the_reference_calls_lead_to_the_answer(task: dict[str, Any]):
    tools = tools_by_name(TOOLS)
    observation = ""
    for call in task["reference"]:
        observation = observation_text(tools[call["tool"]](**call["args"]))
    if isinstance(task["answer"], str):
        assert task["answer"] in observation
        return
    numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", observation)]
    # A few questions ask for the whole number of times that something fits.
    assert any(abs(number - task["answer"]) <= 0.01 or int(number) == task["answer"] for number in numbers)


def test_tools_tell_what_is_wrong():
    for wrong in (
        lambda: read_file("secrets.txt"),
        lambda: convert_units(1, "parsec", "m"),
        lambda: convert_units(1, "kg", "m"),
        lambda: calculator("open('x')"),
    ):
        with pytest.raises(ValueError, match=r"is no|is a|not arithmetic"):
            wrong()
    with pytest.raises(Exception, match="readonly"):
        query_database("DELETE FROM sales")


def test_the_calendar_counts_days():
    from datetime import date

    assert calendar(date(2024, 2, 28), days_later=2) == {"date": "2024-03-01", "weekday": "Friday"}
    assert calendar(date(2024, 1, 1), until=date(2024, 12, 31))["days_until"] == 365
