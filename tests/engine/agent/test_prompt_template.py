import pytest
from jinja2 import UndefinedError

from sureact.agent.prompt_template import input_texts, render_template


def test_templates_of_the_package_are_rendered():
    assert render_template("inputs", inputs={"a": "1", "b": "2"}) == "a: 1\nb: 2"


def test_a_missing_value_is_an_error():
    with pytest.raises(UndefinedError):
        render_template("inputs")


def test_inputs_that_are_not_text_are_shown_as_json():
    assert input_texts({"a": "x", "b": [1, None]}) == {"a": "x", "b": "[1, null]"}
