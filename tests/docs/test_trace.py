"""The page's code runs from top to bottom, its examples are records, and its table names every field."""

import json
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from pydantic import TypeAdapter

from sureact.agent.trace_records import TRACE_VERSION, GenerationRecord, Record, ToolRecord
from sureact.agent.trajectory import Step

PAGE = Path(__file__).parents[2] / "docs" / "trace.md"
TEXT = PAGE.read_text(encoding="utf-8")
RECORD: TypeAdapter[Any] = TypeAdapter(Record)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


EXAMPLES: list[dict[str, Any]] = [json.loads(block) for block in blocks("json")]
ROWS: dict[str, str] = dict(re.findall(r"^\| `(\w+)` \| [^|]* \| (.*) \|$", TEXT, re.MULTILINE))


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), names)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["type"])
def test_an_example_is_a_record(example: dict[str, Any]) -> None:
    judged = RECORD.validate_python(example, strict=True)
    assert set(judged) == set(example)
    if example["type"] == "observation":
        Step(**example["finished"])


def test_every_type_has_an_example_and_every_field_a_place_in_the_table() -> None:
    types = {get_args(get_type_hints(record)["type"])[0]: record for record in get_args(Record)}
    assert {example["type"] for example in EXAMPLES} == set(ROWS) == set(types)
    for name, record in types.items():
        fields = set(get_type_hints(record)) - {"type", "time_s", "run_id"}
        assert fields == {word for word in re.findall(r"`(\w+)`", ROWS[name]) if word in fields}
    for record in (GenerationRecord, ToolRecord):
        assert all(f"`{field}`" in TEXT for field in get_type_hints(record))
    assert f"This is version {TRACE_VERSION}" in TEXT


def test_commands_on_the_page_exist(capsys: pytest.CaptureFixture[str]) -> None:
    from sureact.cli.main import build_parser

    lines = [line.partition("#")[0].split()[1:] for block in blocks("bash") for line in block.splitlines()]
    assert len(lines) == 4
    for words in lines:
        build_parser().parse_args(words)
