import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.agent.context_room import ContextRoom
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.trajectory import Step, Trajectory
from sureact.errors import ContextWindowExceededError, PromptTooLongError

FORMAT = ReAct("q -> a", [], lm=ScriptedModel([]), prompt_format="fields").prompt_format
STEP_TOKENS = len("Thought:\nAction: look\nArguments: {}\nObservation: \n")


def trajectory(*lengths: int) -> Trajectory:
    steps = [
        Step(index=index, thought="", tool_name="look", tool_args={}, observation=chr(97 + index) * length)
        for index, length in enumerate(lengths)
    ]
    return Trajectory(steps)


def drop(kept: Trajectory) -> Trajectory:
    if len(kept.steps) == 1:
        raise ContextWindowExceededError("the last one")
    kept.drop_oldest()
    return kept


def room(context_len: int, kept_observation: int = 50) -> ContextRoom:
    return ContextRoom(ScriptedModel([], context_len=context_len), FORMAT, 100, kept_observation)


def lengths(kept: Trajectory) -> dict[int, int]:
    return {step.index: len(step.observation) for step in kept.steps}


def test_the_longest_old_observations_are_cut_to_one_length_and_no_step_is_dropped():
    before = trajectory(1000, 100, 700, 900)
    kept = room(100 + 4 * STEP_TOKENS + 2000).shortened(before, 300, drop)
    cut = lengths(kept)
    assert (cut[1], cut[3]) == (100, 900)  # the short one, and the newest
    assert cut[0] <= 350
    assert abs(cut[0] - cut[2]) <= 10
    assert re.search(r"\n\[cut: \d+ of 1,000 characters shown\]$", kept.steps[0].observation)
    assert lengths(before) == {0: 1000, 1: 100, 2: 700, 3: 900}


def test_room_is_made_for_two_steps_so_that_the_next_one_rebuilds_nothing():
    made = room(100 + 4 * STEP_TOKENS + 2600)
    kept = made.shortened(trajectory(1000, 800, 500), 300, drop)
    assert made.num_tokens(kept) + 2 * 300 <= 100 + 4 * STEP_TOKENS + 2600


def test_an_observation_that_is_cut_again_still_tells_its_first_length():
    kept = room(100 + 2 * STEP_TOKENS + 900).shortened(trajectory(5000, 300), 100, drop)
    again = room(100 + 2 * STEP_TOKENS + 600).shortened(kept, 100, drop)
    text = again.steps[0].observation
    assert text.count("[cut:") == 1
    assert text.endswith("of 5,000 characters shown]")
    assert len(text) < len(kept.steps[0].observation)


def test_steps_are_dropped_where_cutting_is_not_enough():
    kept = room(100 + 2 * STEP_TOKENS + 500, kept_observation=200).shortened(trajectory(400, 400, 250), 50, drop)
    assert list(lengths(kept)) == [1, 2]
    assert lengths(kept)[1] <= 200


def test_nothing_is_cut_where_observations_keep_all():
    kept = room(100 + 2 * STEP_TOKENS + 900, kept_observation=1000).shortened(trajectory(400, 400, 250), 200, drop)
    assert lengths(kept) == {1: 400, 2: 250}


def test_the_only_step_is_cut_and_never_dropped():
    kept = room(100 + STEP_TOKENS + 300).shortened(trajectory(800), 100, drop)
    assert list(lengths(kept)) == [0]
    assert 50 <= lengths(kept)[0] <= 200
    with pytest.raises(ContextWindowExceededError, match="the last one"):
        room(100 + STEP_TOKENS + 120).shortened(trajectory(800), 100, drop)


def test_a_hook_that_shortens_nothing_is_refused():
    with pytest.raises(PromptTooLongError, match="truncate_trajectory left"):
        room(100 + STEP_TOKENS).shortened(trajectory(800, 800), 100, lambda kept: kept)


def test_an_opening_that_leaves_no_room_is_refused():
    with pytest.raises(PromptTooLongError, match="Shorten the inputs"):
        room(150).shortened(trajectory(), 100, drop)


@given(
    st.lists(st.integers(0, 2000), min_size=1, max_size=6),
    st.integers(300, 6000),
    st.integers(1, 400),
    st.integers(1, 300),
)
def test_what_is_returned_fits_and_keeps_the_order(
    sizes: list[int], context_len: int, num_tokens: int, kept_observation: int
):
    before, made = trajectory(*sizes), room(context_len, kept_observation)
    try:
        kept = made.shortened(before, num_tokens, drop)
    except PromptTooLongError:
        return
    assert made.num_tokens(kept) + num_tokens <= context_len
    indices = [step.index for step in kept.steps]
    assert indices == list(range(indices[0], len(sizes)))
    assert all(len(step.observation) <= sizes[step.index] for step in kept.steps)
    if made.num_tokens(before) + 2 * num_tokens <= context_len:
        assert lengths(kept) == lengths(before)
