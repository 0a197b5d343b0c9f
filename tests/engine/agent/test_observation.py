import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from sureact.agent.observation import cut_to_tokens, error_text, observation_text, repeat_text
from sureact.agent.trajectory import Step


class Point(BaseModel):
    x: int


class Opaque:
    def __str__(self) -> str:
        return "opaque thing"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("é", "é"),
        (None, "null"),
        (3.5, "3.5"),
        ({"a": [1, "é"]}, '{"a": [1, "é"]}'),
        ([Point(x=1)], '[{"x": 1}]'),
        (datetime.date(2024, 1, 2), '"2024-01-02"'),
        (Opaque(), "opaque thing"),
        ("caf\udce9.txt", "caf\ufffd.txt"),
        (["caf\udce9"], '["caf\ufffd"]'),
    ],
)
def test_results_read_as_text_or_json(result: object, text: str):
    assert observation_text(result) == text


def test_an_object_that_holds_itself_is_still_text():
    loop: list[object] = []
    loop.append(loop)
    assert observation_text(loop) == "[[...]]"


def test_an_error_shows_type_and_message_only():
    with pytest.raises(ValueError, match="blew up") as caught:
        raise ValueError("tool blew up")
    assert error_text("search", caught.value) == "Execution error in search: ValueError: tool blew up"


def test_an_error_holds_no_lone_surrogate():
    assert error_text("read", ValueError("caf\udce9")) == "Execution error in read: ValueError: caf\ufffd"


def test_a_repeat_says_so_and_gives_the_earlier_observation():
    earlier = Step(index=1, thought="", tool_name="a", tool_args={}, observation="42")
    assert "step 2" in repeat_text(earlier)
    assert "42" in repeat_text(earlier)


@given(st.text(max_size=300), st.integers(40, 200))
def test_a_cut_text_fits_and_says_what_is_missing(text: str, budget: int):
    cut = cut_to_tokens(text, budget, len)
    assert len(cut) <= max(budget, 45)
    assert cut == text or f"of {len(text)} characters shown]" in cut
    assert cut == text or len(text) > budget
