import ast
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.model
@pytest.mark.usefixtures("model_folder")
def test_every_answer_of_the_example_is_what_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    constrained: Any = importlib.import_module("constrained")
    constrained.main()
    review, day, city, ticket = capsys.readouterr().out.splitlines()
    assert review in ("positive", "negative", "neutral")
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", day)
    assert set(ast.literal_eval(city)) == {"city", "founded"}
    assert re.fullmatch(r"(billing|repair|sales) (True|False)", ticket)
