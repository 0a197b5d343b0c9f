import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.schema.pointer import MISSING, child_pointer, value_at


@given(st.lists(st.text(), max_size=4))
def test_a_pointer_has_one_step_per_name(names: list[str]) -> None:
    steps = child_pointer("", *names).split("/")[1:]
    assert [step.replace("~1", "/").replace("~0", "~") for step in steps] == names


def test_a_pointer_goes_on_from_another() -> None:
    assert child_pointer("/a", "b/c", "~1") == "/a/b~1c/~01"


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", {"a/b": [{"~": False}]}),
        ("/a~1b/0/~0", False),
        ("/a~1b/1", MISSING),
        ("/a~1b/x", MISSING),
        ("/c", MISSING),
        ("/a~1b/0/~0/d", MISSING),
    ],
)
def test_a_pointer_leads_to_a_value_or_to_nothing(pointer: str, value: object) -> None:
    found = value_at({"a/b": [{"~": False}]}, pointer)
    assert found is MISSING if value is MISSING else found == value
