import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from sureact.agent.scripted_model import ScriptedModel

EXAMPLES = Path(__file__).parents[2] / "examples"
BOOKING = {"stay": {"arrival": "2026-03-14", "nights": 3}, "room": "double", "breakfast": True}
SCRIPT = [
    *(" Is one free?\n", "Action: free_rooms\nArguments: {}\n"),
    *(" I book it.\n", f"Action: book_room\nArguments: {json.dumps(BOOKING)}\n"),
    *(" Done.\n", "Action: finish\nArguments: {}\n"),
    '{"reasoning": "Booked.", "booking_number": "0314-3"}',
]


class ClosingModel(ScriptedModel):
    def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def custom_tools(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("custom_tools")


def test_the_example_books_a_room_with_arguments_of_rich_types(
    custom_tools: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(custom_tools, "Engine", lambda name: ClosingModel(SCRIPT))  # pyright: ignore
    custom_tools.main()
    shown = capsys.readouterr().out
    assert "Booked a double room with breakfast for 3 nights: 0314-3." in shown
    assert shown.endswith("0314-3\n")


def test_a_stay_without_an_end_is_refused(custom_tools: Any) -> None:
    arrival = custom_tools.date(2026, 3, 14)
    with pytest.raises(ValueError, match="nights"):
        custom_tools.Stay(arrival=arrival, nights=0)
