"""Measures prompt formats: how many of the 24 tasks an agent gets right in each, and at what cost.

    python -m benchmarks.agent.bench_formats --model qwen2.5-coder-1.5b-instruct

Every finished task is appended to the results file, and a task whose prompt is already there is not run again.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.agent.task_tools import TOOLS

from sureact.agent.formats.registry import FORMATS
from sureact.agent.language_model import LanguageModel
from sureact.agent.react import ReAct
from sureact.errors import SureactError

TASKS = Path(__file__).with_name("tasks.jsonl")
RESULTS = Path(__file__).parents[1] / "results" / "agent_formats.jsonl"
# Answers that are not whole are asked for with two decimals.
TOLERANCE = 0.01


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the records of a JSON Lines file; none when there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def is_right(answer: object, expected: float | str) -> bool:
    """Judge an answer: numbers by distance, texts regardless of case and of a full stop."""
    if isinstance(expected, str):
        return str(answer).strip().rstrip(".").casefold() == expected.casefold()
    return isinstance(answer, int | float) and abs(answer - expected) <= TOLERANCE


def agent_for(task: dict[str, Any], lm: LanguageModel, prompt_format: str) -> ReAct:
    """Return an agent whose answer has the type that the task asks for."""
    answer_type = "str" if isinstance(task["answer"], str) else "float"
    return ReAct(f"question: str -> answer: {answer_type}", TOOLS, lm=lm, max_iters=10, prompt_format=prompt_format)


def prompt_key(agent: ReAct, task: dict[str, Any]) -> str:
    """Return a text that changes whenever model, format, tools or task do."""
    opening = agent.prompt_format.opening({"question": task["question"]}).text
    return hashlib.sha256(f"{agent.lm.name}\n{agent.prompt_format.name}\n{opening}".encode()).hexdigest()[:16]


def run_task(agent: ReAct, task: dict[str, Any]) -> dict[str, Any]:
    """Run one task and judge it; an error of the run counts as wrong."""
    record = {"model": agent.lm.name, "format": agent.prompt_format.name, "task": task["id"]}
    try:
        prediction = agent(question=task["question"])
    except SureactError as error:
        failed = {"right": False, "answer": None, "reason": type(error).__name__, "steps": 0}
        return record | failed | {"errors": 0, "repeats": 0, "tokens": 0, "seconds": 0.0}
    steps = prediction.trajectory.steps
    return record | {
        "right": is_right(prediction.answer, task["answer"]),
        "answer": prediction.answer,
        "reason": prediction.termination_reason,
        "steps": len(steps),
        "errors": sum(step.is_error for step in steps),
        "repeats": sum(step.is_repeat for step in steps),
        "tokens": prediction.usage.completion_tokens,
        "seconds": round(prediction.usage.seconds, 2),
    }


def run_format(lm: LanguageModel, prompt_format: str, tasks: Sequence[dict[str, Any]], results: Path) -> dict[str, Any]:
    """Run the tasks that are not in the results file yet, and sum up."""
    finished = {record["key"]: record for record in read_lines(results)}
    records: list[dict[str, Any]] = []
    for task in tasks:
        agent = agent_for(task, lm, prompt_format)
        key = prompt_key(agent, task)
        if key not in finished:
            finished[key] = run_task(agent, task) | {"key": key}
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(finished[key]) + "\n")
            print(f"{prompt_format} {task['id']}: {'right' if finished[key]['right'] else 'wrong'}", file=sys.stderr)
        records.append(finished[key])
    return summary(lm.name, prompt_format, records)


def summary(model: str, prompt_format: str, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sum up the records of one format."""
    sums = {name: sum(record[name] for record in records) for name in ("steps", "errors", "repeats", "tokens")}
    right = sum(record["right"] for record in records)
    seconds = round(sum(record["seconds"] for record in records), 1)
    return {"model": model, "format": prompt_format, "n": len(records), "right": right, **sums, "seconds": seconds}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as aligned columns under their names."""
    cells = [list(rows[0]), *(list(map(str, row.values())) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)


def main() -> None:
    """Read the options, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="name, folder or file of the model")
    parser.add_argument("--format", action="append", choices=sorted(FORMATS), help="again for more; default: all")
    parser.add_argument("--limit", type=int, help="only the first tasks")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON Lines file to append to")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()

    from sureact import Engine

    engine = Engine(options.model)
    tasks = read_lines(TASKS)[: options.limit]
    rows = [run_format(engine, name, tasks, options.results) for name in options.format or sorted(FORMATS)]
    engine.close()
    print(json.dumps(rows) if options.json else table(rows))


if __name__ == "__main__":
    main()
