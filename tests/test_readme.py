"""What the README says can be run.

A block whose first line is `# needs the model` runs under the marker `model`; in blocks of commands, the lines that ask
`sureact` for help are run.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODEL_MARK = "# needs the model"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(*languages: str) -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [code for language, code in BLOCK.findall(text) if language in languages]


PYTHON_BLOCKS = blocks("python")
HELP_COMMANDS = sorted(
    {
        line.removeprefix("$ ")
        for code in blocks("bash", "console", "sh")
        for line in code.splitlines()
        if line.removeprefix("$ ").startswith("sureact ") and line.endswith(" --help")
    }
)


def run(*command: str) -> None:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("code", [code for code in PYTHON_BLOCKS if not code.startswith(MODEL_MARK)])
def test_a_python_block_runs(code: str) -> None:
    run(sys.executable, "-c", code)


@pytest.mark.model
@pytest.mark.usefixtures("model_folder")
@pytest.mark.parametrize("code", [code for code in PYTHON_BLOCKS if code.startswith(MODEL_MARK)])
def test_a_python_block_that_needs_the_model_runs(code: str) -> None:
    run(sys.executable, "-c", code)


@pytest.mark.parametrize("command", HELP_COMMANDS)
def test_a_help_command_runs(command: str) -> None:
    run(str(Path(sys.executable).with_name("sureact")), *command.split()[1:])
