import importlib
from pathlib import Path
from typing import Any

import pytest

from sureact.agent.scripted_model import ScriptedModel

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT = [
    *(" I look Porto up.\n", 'Action: population\nArguments: {"city": "Porto"}\n'),
    *(" I look Braga up.\n", 'Action: population\nArguments: {"city": "Braga"}\n'),
    *(" I know both.\n", "Action: finish\nArguments: {}\n"),
    '{"reasoning": "231,800 is more.", "larger_city": "Porto", "people": 231800}',
]


class ClosingModel(ScriptedModel):
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_the_example_prints_its_outputs_and_its_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    quickstart: Any = importlib.import_module("quickstart")
    model = ClosingModel(SCRIPT)
    monkeypatch.setattr(quickstart, "Engine", lambda name: model)  # pyright: ignore
    quickstart.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Porto 231800"
    assert lines[1] == "I look Porto up. -> population {'city': 'Porto'} -> 231800"
    assert len(lines) == 4
    assert model.is_closed
