"""The page's code runs from top to bottom; blocks that need the model only under the marker `model`."""

import re
from pathlib import Path
from typing import Any

import pytest

from sureact.engine import Engine

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-qwen-agent.md"
MODEL_MARK = "# needs the model"
BLOCKS: list[str] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run(blocks: list[str]) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_what_needs_no_model_runs():
    blocks = [block for block in BLOCKS if not block.startswith(MODEL_MARK)]
    assert len(blocks) == 3
    run(blocks)


@pytest.mark.model
@pytest.mark.usefixtures("model_folder")
def test_the_whole_page_runs(capsys: pytest.CaptureFixture[str]):
    names = run(BLOCKS)
    engine = names["engine"]
    assert isinstance(engine, Engine)
    engine.close()
    assert "Thought:" in capsys.readouterr().out
