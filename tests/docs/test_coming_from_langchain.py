"""The page's code runs from top to bottom; the block that needs the model only under the marker `model`."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-langchain.md"
BLOCKS: list[str] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run(*blocks: str) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


def test_what_needs_no_model_runs(capsys: pytest.CaptureFixture[str]):
    assert len(BLOCKS) == 2
    run(BLOCKS[0])
    assert capsys.readouterr().out == "231800\nExecution error in population: KeyError: 'Rome'\n"


@pytest.mark.model
@pytest.mark.usefixtures("model_folder")
def test_the_whole_page_runs(capsys: pytest.CaptureFixture[str]):
    assert BLOCKS[1].startswith("# needs the model")
    run(*BLOCKS)
    assert capsys.readouterr().out.splitlines()[-1].isdecimal()
