"""Cases of the leaderboard as its files hold them: one JSON object a line, right answers in a folder beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.tokens.chat_template import Message

Category = Literal["simple", "multiple", "parallel", "irrelevance", "live_simple", "live_multiple"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
_FILE_NAMES = {"simple": "simple_python"}
"""Where the package calls a category otherwise."""
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class BfclQuestion:
    """What a case asks."""

    id: str
    category: Category
    messages: tuple[Message, ...]
    functions: tuple[Mapping[str, Any], ...]
    answers: tuple[Mapping[str, Any], ...]
    """The right calls, each a name with the allowed values per argument; none where no call is right."""

    @property
    def wants_call(self) -> bool:
        """Whether a call is right, rather than none."""
        return self.category != "irrelevance"


def read_questions(folder: Path, category: Category) -> list[BfclQuestion]:
    """Return the cases of a category.

    Args:
        folder: holds `BFCL_v4_<category>.json` and the folder `possible_answer`.
        category: which.

    Raises:
        ConfigError: a file is missing or is not of this form.
    """
    name = f"BFCL_v4_{_FILE_NAMES.get(category, category)}.json"
    records = _read_lines(folder / name)
    answers = {} if category == "irrelevance" else _answers(folder / "possible_answer" / name)
    try:
        return [_question(record, category, answers) for record in records]
    except (KeyError, TypeError, IndexError) as error:
        raise ConfigError(f"{folder / name} is not of the form of bfcl-eval: {error!r}. Install it anew.") from error


def _question(
    record: Mapping[str, Any], category: Category, answers: Mapping[str, Sequence[Mapping[str, Any]]]
) -> BfclQuestion:
    messages: list[Message] = [
        {"role": message["role"], "content": message["content"]}
        for message in record["question"][0]
        if message["role"] in _ROLES
    ]
    return BfclQuestion(
        id=record["id"],
        category=category,
        messages=tuple(messages),
        functions=tuple(record["function"]),
        answers=() if category == "irrelevance" else tuple(answers[record["id"]]),
    )


def _answers(file: Path) -> dict[str, list[Mapping[str, Any]]]:
    return {record["id"]: record["ground_truth"] for record in _read_lines(file)}


def _read_lines(file: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {error}. Install bfcl-eval anew.") from error
