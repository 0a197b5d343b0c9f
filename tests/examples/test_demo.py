import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sureact.agent.scripted_model import ScriptedModel
from sureact.errors import ModelNotFoundError

EXAMPLES = Path(__file__).parents[2] / "examples"
CALLS = [
    ("query_database", '{"sql": "SELECT SUM(quantity * unit_price) FROM orders WHERE customer = \'Alba\'"}'),
    ("search_files", '{"text": "discount"}'),
    ("calculator", '{"expression": "324.0 * 0.08"}'),
    ("finish", "{}"),
]


class ClosingModel(ScriptedModel):
    def __enter__(self) -> "ClosingModel":
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("demo")


def script(amount: float) -> list[str]:
    steps = [text for name, args in CALLS for text in (f" I use {name}.\n", f"Action: {name}\nArguments: {args}\n")]
    return [*steps, f'{{"reasoning": "8 percent of it", "discount_in_euros": {amount}}}']


@pytest.mark.parametrize(("amount", "code"), [(25.92, 0), (298.08, 1)])
def test_the_demo_checks_its_own_answer(
    demo: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], amount: float, code: int
):
    monkeypatch.setattr(demo, "Engine", lambda name: ClosingModel(script(amount)))  # pyright: ignore
    assert demo.main() == code
    shown = capsys.readouterr().out
    assert shown.count("Thought: I use ") == len(CALLS)
    assert "Observation: [[324.0]]" in shown
    assert "Observation: 25.92" in shown
    assert ("WRONG" in shown) == bool(code)
    assert "prompt tokens reused" in shown


def test_a_model_that_is_not_there_is_one_line_on_standard_error(
    demo: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fail(name: str) -> None:
        raise ModelNotFoundError("run `sureact pull`")

    monkeypatch.setattr(demo, "Engine", fail)
    assert demo.main() == 1
    assert capsys.readouterr().err == "error: run `sureact pull`\n"
