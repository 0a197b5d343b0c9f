import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.agent.trajectory import Step, Trajectory


def step(index: int) -> Step:
    return Step(index=index, thought=f"t{index}", tool_name="search", tool_args={"k": index}, observation=f"o{index}")


def test_it_is_the_mapping_that_dspy_makes():
    trajectory = Trajectory([step(0), step(1)])
    assert dict(trajectory) == {
        "thought_0": "t0",
        "tool_name_0": "search",
        "tool_args_0": {"k": 0},
        "observation_0": "o0",
        "thought_1": "t1",
        "tool_name_1": "search",
        "tool_args_1": {"k": 1},
        "observation_1": "o1",
    }
    assert len(trajectory) == 8
    assert "thought_2" not in trajectory
    assert "index_0" not in trajectory


def test_indices_never_restart_when_steps_are_dropped():
    trajectory = Trajectory([step(0), step(1)])
    assert trajectory.drop_oldest().index == 0
    assert next(iter(trajectory)) == "thought_1"
    with pytest.raises(KeyError):
        trajectory["thought_0"]


@given(st.lists(st.integers(0, 99), unique=True), st.dictionaries(st.text(), st.text() | st.none() | st.booleans()))
def test_json_gives_back_the_same_steps(indices: list[int], args: dict[str, object]):
    steps = [Step(index=i, thought="é\n", tool_name="a", tool_args=args, observation="") for i in indices]
    assert Trajectory.from_json(Trajectory(steps).to_json()).steps == steps


@pytest.mark.parametrize("text", ["", "5", "[1]", '[{"index": 0}]', '[{"unknown": 0}]'])
def test_other_json_is_refused(text: str):
    with pytest.raises(ValueError, match="Not a trajectory"):
        Trajectory.from_json(text)
