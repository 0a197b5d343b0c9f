"""The page for users of dspy: every block of it runs, in a process of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL_MARK = "# needs the model"
PAGE = (ROOT / "docs" / "coming-from-dspy.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("code", [code for code in BLOCKS if not code.startswith(MODEL_MARK)])
def test_a_block_runs(code: str) -> None:
    assert "'maxLength': 500" in run(code)


@pytest.mark.model
@pytest.mark.usefixtures("model_folder")
@pytest.mark.parametrize("code", [code for code in BLOCKS if code.startswith(MODEL_MARK)])
def test_a_block_that_needs_the_model_runs(code: str) -> None:
    assert re.search("Tokyo|'urgent': True", run(code))
