"""The page's code runs from top to bottom: with a scripted model, and with the real one under the marker `model`."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from sureact.agent.history import ForcedBy
from sureact.agent.react_v2 import ReActV2
from sureact.agent.scripted_model import ScriptedModel

TEXT = (Path(__file__).parents[2] / "docs" / "history.md").read_text(encoding="utf-8")
BLOCKS: list[str] = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
CALL = '<tool_call>\n{"name": "%s", "arguments": {"%s": "%s"}}\n</tool_call>'
SCRIPT = [
    *("Both.\n", CALL % ("capital", "country", "France"), "{", CALL % ("capital", "country", "Japan"), ""),
    *("Done.\n", CALL % ("submit", "answer", "Paris and Tokyo")),
    *("Both.\n", CALL % ("population", "city", "Paris"), ""),
    *("Done.\n", CALL % ("submit", "answer", "2.1 million")),
    *("Done.\n", CALL % ("submit", "answer", "Tokyo")),
]


def run(blocks: list[str], **names: Any) -> dict[str, Any]:
    names = {"__name__": "page", **names}
    for block in blocks:
        exec(compile(block, "history.md", "exec"), names)
    return names


def test_the_page_runs(capsys: pytest.CaptureFixture[str]):
    tools = run([BLOCKS[0].partition("\nlm = ")[0]])
    agent = ReActV2("question -> answer", [tools["capital"], tools["population"]], lm=ScriptedModel(SCRIPT))
    run(BLOCKS[1:], agent=agent)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "Paris and Tokyo submit"
    assert printed[1] == "0 Both. [('call_0_0', 'capital', 'Paris'), ('call_0_1', 'capital', 'Tokyo')]"
    assert printed[-1] == "2 3"


@pytest.mark.model
@pytest.mark.usefixtures("model_folder")
def test_the_page_runs_on_the_real_model(capsys: pytest.CaptureFixture[str]):
    assert BLOCKS[0].startswith("# needs the model")
    names = run(BLOCKS)
    names["lm"].close()
    assert "('call_0_0', 'capital', 'Paris'), ('call_0_1', 'capital', 'Tokyo')" in capsys.readouterr().out


def test_every_cause_of_a_forced_submit_is_told():
    told = re.findall(r'^\| ((?:`"\w+"`(?:, )?)+) \|', TEXT, re.MULTILINE)
    assert sorted(re.findall(r"\w+", " ".join(told))) == sorted(get_args(ForcedBy))


def test_every_row_of_the_table_has_both_sides():
    rows = [line for line in TEXT.partition("## What differs")[2].splitlines() if line.startswith("| ")]
    assert len(rows) > 8
    assert all(line.count(" | ") == 1 for line in rows)
