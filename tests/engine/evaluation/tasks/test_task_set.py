"""The task set is whole: 60 tasks whose references reach their answers with the real tools."""

import json
import re
from collections import Counter
from itertools import product
from typing import Any, get_args

import pytest

from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.tool_call import run_tool
from sureact.evaluation.tasks.task_set import CATEGORIES, Judge, Level, Task, all_tasks
from sureact.evaluation.tasks.tools import task_tools, tools_named

TASKS = pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.id)
EASY = pytest.mark.parametrize("task", [task for task in all_tasks() if task.level == "easy"], ids=lambda task: task.id)
LOOKUPS = (
    "read_file",
    "open_article",
    "find_events",
    "list_events",
    "phone_number",
    "weather",
    "weekday_of",
    "days_between",
)
# The column `name` too: that a ship or a person has one goes without saying.
WORDS_OF_SQL = re.compile(r"\b(?:SELECT|FROM|WHERE|ORDER BY|IN|name)\b|[=(),']")


def observations(task: Task) -> list[str]:
    results = [run_tool(task_tools()[call.tool], dict(call.args)) for call in task.reference]
    assert [result.observation for result in results if result.is_error] == []
    return [result.observation for result in results]


def answer_in(observation: str, judge: Judge) -> object:
    if judge.kind == "number":
        return float(re.findall(r"-?\d+(?:\.\d+)?", observation)[0])
    return observation.strip('[]"')


def test_there_are_sixty_tasks_six_of_each_level_in_a_category() -> None:
    levels: tuple[Level, ...] = get_args(Level)
    assert Counter((task.category, task.level) for task in all_tasks()) == dict.fromkeys(product(CATEGORIES, levels), 6)
    assert len({task.id for task in all_tasks()}) == len({task.question for task in all_tasks()}) == 60


@TASKS
def test_the_reference_ends_at_the_answer(task: Task) -> None:
    assert task.judge.is_right(answer_in(observations(task)[-1], task.judge))


@TASKS
def test_a_task_takes_two_or_three_calls_of_its_tools_and_offers_others(task: Task) -> None:
    used = {call.tool for call in task.reference}
    assert 2 <= len(task.reference) <= 3
    assert used < set(task.tools)
    assert len(set(task.tools)) == len(task.tools)
    assert len(task.tools) <= 5 if task.level == "easy" else len(task.tools) >= len(used) + 4


@EASY
def test_an_easy_question_names_what_its_calls_need(task: Task) -> None:
    """What is not in the question is in what an earlier call gave."""
    known = task.question.lower()
    for call, observation in zip(task.reference, observations(task), strict=True):
        if call.tool == "run_sql":
            names = WORDS_OF_SQL.sub(" ", str(call.args["query"])).split()
        else:
            names = [value for value in call.args.values() if isinstance(value, str) and call.tool in LOOKUPS]
        assert [name for name in names if name.lower() not in known] == []
        known += observation.lower()


@EASY
def test_an_easy_number_that_has_more_decimals_is_asked_for_rounded(task: Task) -> None:
    """Where nothing is said of rounding, what the last call gives is the answer as it stands."""
    if task.judge.kind != "number":
        return
    number = answer_in(observations(task)[-1], task.judge)
    assert isinstance(number, float)
    decimals = next(
        (places for word, places in (("one", 1), ("two", 2)) if f"to {word} decimal" in task.question), None
    )
    if decimals is None:
        assert number == task.judge.value
    else:
        assert round(number, decimals) == task.judge.value


@TASKS
def test_a_question_does_not_hold_its_answer(task: Task) -> None:
    assert str(task.judge.value) not in re.findall(r"[\w.-]+", task.question)


@TASKS
def test_a_loop_that_makes_the_calls_of_the_reference_is_right(task: Task) -> None:
    said: list[str | BaseException] = []
    for call in task.reference:
        said += ["Next.\n", f"Action: {call.tool}\nArguments: {json.dumps(in_schema_order(call.tool, call.args))}\n"]
    said += ["Done.\n", "Action: finish\nArguments: {}\n"]
    said.append(json.dumps({"reasoning": "r", "answer": task.judge.value}))
    agent = ReAct(task.signature, tools_named(task.tools), lm=ScriptedModel(said), prompt_format="fields")
    prediction = agent(question=task.question)
    assert task.judge.is_right(prediction.answer)
    assert [step.tool_name for step in prediction.trajectory.steps if step.is_error] == []


def in_schema_order(tool: str, args: Any) -> dict[str, Any]:
    return {name: args[name] for name in task_tools()[tool].args if name in args}


@pytest.mark.parametrize(
    ("judge", "right", "wrong"),
    [
        (Judge(kind="number", value=4.2, tolerance=0.05), [4.2, 4.25, 4.15, "4.2"], [4.26, "four", None, [4.2]]),
        (Judge(kind="number", value=1, tolerance=0.01), [1, 1.0], [True, 2]),
        (Judge(kind="text", value="Ivo Kettering"), ["ivo kettering", " Ivo Kettering."], ["Ivo", 3, None]),
        (Judge(kind="date", value="2025-07-03"), ["2025-07-03"], ["2025-7-3", "3 July 2025"]),
    ],
)
def test_answers_are_judged_by_their_kind(judge: Judge, right: list[object], wrong: list[object]) -> None:
    assert [answer for answer in right if not judge.is_right(answer)] == []
    assert [answer for answer in wrong if judge.is_right(answer)] == []


@pytest.mark.parametrize(
    ("judge", "text", "is_in"),
    [
        (Judge(kind="number", value=1250, tolerance=0), "The 3 ships take 1,250 people.", True),
        (Judge(kind="number", value=-2.5, tolerance=0.1), "It was -2.45 degrees", True),
        (Judge(kind="number", value=12, tolerance=0), "It is 125, or 0.12.", False),
        (Judge(kind="number", value=4, tolerance=0), "four", False),
        (Judge(kind="text", value="Ivo Kettering"), "That is ivo kettering.", True),
        (Judge(kind="text", value="Gannet"), "The Gannets", False),
        (Judge(kind="date", value="2025-10-13"), "On 2025-10-13, a Monday", True),
    ],
)
def test_an_answer_is_found_in_prose(judge: Judge, text: str, is_in: bool) -> None:
    assert judge.is_in(text) is is_in
