from pathlib import Path

import pytest

from sureact.cli.later_commands import LATER_COMMANDS, refuse_later_command
from sureact.cli.main import main

LATER = [
    *([command, "--port", "3"] for command in LATER_COMMANDS),
]


@pytest.mark.parametrize("words", LATER, ids=" ".join)
def test_what_comes_later_is_refused_by_name(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"`sureact {words[0]}" in said.err
    assert "comes with a later version" in said.err


def test_what_is_there_is_not_refused() -> None:
    refuse_later_command([])
    refuse_later_command(["models"])
    refuse_later_command(["run", "--resume", "t.jsonl"])
    refuse_later_command([str(Path("generate")), "serve"])
