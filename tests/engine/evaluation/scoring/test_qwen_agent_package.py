"""The package's classes come without the clients of services."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

needs_qwen_agent = pytest.mark.skipif(find_spec("qwen_agent") is None, reason="qwen-agent is not installed")
NAME = "sureact.evaluation.scoring.qwen_agent_package"


def run(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.strip()


@needs_qwen_agent
def test_nothing_stands_in_for_a_missing_package_afterwards() -> None:
    said = run(
        f"import sys; from {NAME} import ReActChat;"
        "print(ReActChat.__name__, [name for name in ('dashscope', 'soundfile') if name in sys.modules"
        " and not sys.modules[name].__spec__])"
    )
    assert said == "ReActChat []"


def test_a_missing_package_is_named_with_its_command() -> None:
    said = run(
        "import sys; sys.modules['qwen_agent'] = None\n"
        f"try:\n    import {NAME}\nexcept ImportError as error:\n    print(error)"
    )
    assert said.startswith("Qwen-Agent cannot be imported")
    assert said.endswith("pip install qwen-agent")
