import pytest

from sureact.agent.call_opening import BARE_CALLS, OPEN_TAG, is_stopped, opening_stops, without_fence
from sureact.outputs import StepOutput, TokenUsage


def output(stop_reason: str | tuple[int, ...] | int | None) -> StepOutput:
    usage = TokenUsage(prompt_tokens=1, cached_tokens=0, completion_tokens=0)
    return StepOutput(text="", token_ids=(), finish_reason="stop", stop_reason=stop_reason, usage=usage)


def test_a_call_begins_with_its_tag_in_any_spelling_or_with_bare_json() -> None:
    assert opening_stops([7]) == [*BARE_CALLS, OPEN_TAG, (7,)]


@pytest.mark.parametrize(("reason", "is_one"), [("<tool_call>", True), ((7,), True), (3, False), (None, False)])
def test_the_end_of_a_turn_is_no_stop(reason: str | tuple[int, ...] | int | None, is_one: bool) -> None:
    assert is_stopped(output(reason)) == is_one


@pytest.mark.parametrize(
    ("text", "kept"),
    [("a\n```json\n", "a\n"), ("```", ""), ("a", "a"), ("```python\n", "```python\n"), ("```json\nx", "```json\nx")],
)
def test_the_fence_at_the_end_is_taken_off(text: str, kept: str) -> None:
    assert without_fence(text) == kept
