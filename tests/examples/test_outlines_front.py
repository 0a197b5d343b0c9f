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
    outlines_front: Any = importlib.import_module("outlines_front")
    outlines_front.main()
    city, day, reviews, tool = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"(Rome|Paris|Lisbon) (True|False)", city)
    assert re.fullmatch(r"19\d\d-\d\d-\d\d", day)
    assert re.fullmatch(r"\['(positive|negative)', '(positive|negative)'\]", reviews)
    assert tool in ("population", "finish")
