from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.schema.pointer import child_pointer


@given(st.lists(st.text(), max_size=4))
def test_a_pointer_has_one_step_per_name(names: list[str]) -> None:
    steps = child_pointer("", *names).split("/")[1:]
    assert [step.replace("~1", "/").replace("~0", "~") for step in steps] == names


def test_a_pointer_goes_on_from_another() -> None:
    assert child_pointer("/a", "b/c", "~1") == "/a/b~1c/~01"
