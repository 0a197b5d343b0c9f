"""The page's code runs from top to bottom: with a scripted model, and with the real one under the marker `model`."""

import re
from pathlib import Path
from typing import Any

import pytest

from sureact.agent.scripted_model import ScriptedModel

PAGE = Path(__file__).parents[2] / "docs" / "modules.md"
BLOCKS: list[str] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
TICKET = ['{"team": "repair"}', '{"reasoning": "It leaks.", "urgent": true}']


class ByField(ScriptedModel):
    """Answers by what is asked for, since a batch has no order."""

    def __init__(self) -> None:
        super().__init__([])

    def render_chat(self, messages: Any, **options: Any) -> Any:
        asks_for_team = "urgent" not in messages[0]["content"]
        self.script = [TICKET[0] if asks_for_team else TICKET[1]]
        return super().render_chat(messages, **options)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(blocks: list[str], **names: Any) -> dict[str, Any]:
    names = {"__name__": "page", **names}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_the_page_runs(capsys: pytest.CaptureFixture[str]):
    blocks = [block.replace("return_failed", "num_threads=1, return_failed") for block in BLOCKS[1:]]
    names = run(blocks, lm=ByField())
    printed = capsys.readouterr().out
    assert "repair True\n" in printed
    assert "['team', 'checks[0].predict']\n" in printed
    assert "Ticket {'ticket': 'No heating.'}\n" in printed
    assert [len(names[name]) for name in ("predictions", "failed", "errors")] == [2, 0, 0]
    assert printed.count("Say which team takes the ticket.") == 1


@pytest.mark.model
@pytest.mark.usefixtures("model_folder")
def test_the_page_runs_on_the_real_model(capsys: pytest.CaptureFixture[str]):
    assert BLOCKS[0].startswith("# needs the model")
    names = run(BLOCKS)
    names["lm"].close()
    assert len(names["program"].history) == 8
    assert "['team', 'checks[0].predict']\n" in capsys.readouterr().out


def test_every_row_of_the_table_has_both_sides():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(rows) > 20
    assert all(line.count(" | ") == 1 for line in rows)
