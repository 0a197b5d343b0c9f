from pathlib import Path
from typing import Any

import pytest
from benchmarks.agent.bench_formats import is_right, read_lines, run_format, summary, table

from sureact.agent.scripted_model import ScriptedModel

TASKS: list[dict[str, Any]] = [{"id": "a", "question": "1 + 2?", "answer": 3.0}]
SCRIPT = [
    " I add.\n",
    'Action: calculator\nArguments: {"expression": "1 + 2"}\n',
    " Done.\n",
    "Action: finish\nArguments: {}\n",
    '{"reasoning": "", "answer": 3.0}',
]


@pytest.mark.parametrize(
    ("answer", "expected", "right"),
    [
        (3.004, 3.0, True),
        (3.02, 3.0, False),
        ("3", 3.0, False),
        (" tuesday. ", "Tuesday", True),
        ("Monday", "Tuesday", False),
        (None, "Tuesday", False),
    ],
)
def test_answers_are_judged_by_their_type(answer: object, expected: float | str, right: bool):
    assert is_right(answer, expected) == right


def test_a_task_is_run_once_and_read_again_afterwards(tmp_path: Path):
    results = tmp_path / "results.jsonl"
    first = run_format(ScriptedModel(SCRIPT), "fields", TASKS, results)
    again = run_format(ScriptedModel([]), "fields", TASKS, results)
    assert first == again
    assert (first["n"], first["right"], first["steps"]) == (1, 1, 2)
    assert len(read_lines(results)) == 1


def test_a_run_that_fails_counts_as_wrong(tmp_path: Path):
    row = run_format(ScriptedModel([], context_len=100), "fields", TASKS, tmp_path / "results.jsonl")
    assert (row["n"], row["right"]) == (1, 0)


def test_rows_are_aligned_under_their_names():
    lines = table([summary("m", "fields", [])]).splitlines()
    assert lines[0].split()[:4] == ["model", "format", "n", "right"]
    assert lines[1].split()[:4] == ["m", "fields", "0", "0"]
