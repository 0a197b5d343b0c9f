"""Small cases in each of the three kinds of file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Writer = Callable[..., Path]

AGE = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}, "required": ["age"]}

MASKBENCH: dict[str, Any] = {
    "description": "an age",
    "schema": AGE,
    "tests": [
        {"description": "young", "valid": True, "data": {"age": 3}},
        {"description": "not born", "valid": False, "data": {"age": -3}},
    ],
}
SUITE: list[dict[str, Any]] = [
    {
        "description": "integers",
        "schema": {"type": "integer"},
        "tests": [{"description": "", "data": 1, "valid": True}],
    },
    {"description": "none", "schema": False, "tests": [{"description": "", "data": 1, "valid": False}]},
]
RAW: list[dict[str, Any]] = [
    {"id": "word", "kind": "choice", "schema": ["yes", "no"], "valid": ["yes"], "invalid": ["maybe"]},
    {"id": "digits", "kind": "regex", "schema": "[0-9]+", "valid": ["12"], "invalid": ["1x", "\ud800"]},
    {"id": "spaced", "kind": "json_schema", "schema": AGE, "valid": ['{ "age" :3}'], "invalid": ['{"age":3,}']},
]


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    """Write a value as a JSON file below `cases`, and return the path of that folder."""

    def write_file(name: str, value: object) -> Path:
        path = tmp_path / "cases" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return tmp_path / "cases"

    return write_file
