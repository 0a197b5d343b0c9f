"""The 60 tasks: what is asked, with which tools, how an answer is judged, and one way to find it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from sureact.evaluation.tasks.world import read_data_lines

Category = Literal["sqlite", "files", "calendar", "arithmetic", "search"]
"""What a task mostly asks for; most tasks need another kind of tool too."""
CATEGORIES: tuple[Category, ...] = get_args(Category)
Level = Literal["easy", "hard"]
"""Half of a category is easy: the question says where each thing stands, in which unit, and what to do with it."""
_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
"""With commas between thousands too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """How an answer is judged."""

    kind: Literal["number", "text", "date"]
    value: float | str
    tolerance: float = 0.0
    """Of a number: how far an answer may be from it."""

    @property
    def output_type(self) -> str:
        """The type of the answer in a signature."""
        return "float" if self.kind == "number" else "str"

    def is_right(self, answer: object) -> bool:
        """Judge an answer: numbers by distance, texts regardless of case, article and full stop."""
        if self.kind == "number":
            number = _number(answer)
            assert isinstance(self.value, int | float)
            # Half a unit in the last place more, because decimal fractions are not exact in binary.
            return number is not None and abs(number - self.value) <= self.tolerance + 1e-9
        return isinstance(answer, str) and _plain(answer) == _plain(str(self.value))

    def is_in(self, text: str) -> bool:
        """Judge prose: by whether the number or the text that is right stands in it, as words of their own."""
        if self.kind == "number":
            return any(self.is_right(number.replace(",", "")) for number in _NUMBER.findall(text))
        wanted = re.escape(str(self.value).casefold())
        return re.search(rf"(?<!\w){wanted}(?!\w)", text.casefold()) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCall:
    """A call of a reference solution."""

    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A question that takes several calls."""

    id: str
    category: Category
    level: Level
    question: str
    tools: tuple[str, ...]
    """Names of the tools that are offered; the reference needs some of them."""
    judge: Judge
    reference: tuple[ReferenceCall, ...]
    """Calls whose last result holds the answer."""

    @property
    def signature(self) -> str:
        """What goes in and what comes out."""
        return f"question: str -> answer: {self.judge.output_type}"


@cache
def all_tasks() -> tuple[Task, ...]:
    """Return the tasks in order, those of a category side by side."""
    return tuple(_task(record) for record in read_data_lines("tasks.jsonl"))


def _task(record: Mapping[str, Any]) -> Task:
    reference: Sequence[Mapping[str, Any]] = record["reference"]
    return Task(
        id=record["id"],
        category=record["category"],
        level=record["level"],
        question=record["question"],
        tools=tuple(record["tools"]),
        judge=Judge(**record["judge"]),
        reference=tuple(ReferenceCall(**call) for call in reference),
    )


def _number(answer: object) -> float | None:
    if isinstance(answer, bool) or not isinstance(answer, int | float | str):
        return None
    try:
        return float(answer)
    except ValueError:
        return None


def _plain(text: str) -> str:
    return text.strip().rstrip(".").casefold().removeprefix("the ")
