from importlib.resources import files

import pytest

from sureact.page.assets import asset


def test_files_follow_one_another() -> None:
    both = asset("steps.js", "trace.js")
    assert both == f"{asset('steps.js')}\n{asset('trace.js')}"
    assert both.startswith('"use strict";'), "which holds for all that follows in the same script"


@pytest.mark.parametrize("name", sorted(file.name for file in files("sureact.page").iterdir() if "." in file.name))
def test_no_file_of_a_page_points_elsewhere_or_makes_markup_of_text(name: str) -> None:
    text = asset(name).replace('xmlns="http://www.w3.org/2000/svg"', "")  # a name, not an address
    for fault in ("http:", "https:", "@import", "url(", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval("):
        assert fault not in text, f"{name} has {fault}"
    assert "style=" not in text
