from hypothesis import given
from hypothesis import strategies as st

from sureact.outputs import StepLogprobs, StepOutput, StreamDelta, TokenLogprob, TokenUsage
from sureact.server.text_shaping import ShownLogprobs, TextBeforeCall, TextUpTo, TrimmedText

PIECES = st.lists(st.text("ab \n`json", max_size=6), max_size=8)


@given(PIECES)
def test_trimmed_text_is_the_text_without_its_ends(pieces: list[str]) -> None:
    trimmed = TrimmedText()
    assert "".join(map(trimmed.push, pieces)) == "".join(pieces).strip()


@given(PIECES)
def test_text_without_a_call_stays_whole(pieces: list[str]) -> None:
    shaper = TextBeforeCall()
    assert "".join([*map(shaper.push, pieces), shaper.end()]) == "".join(pieces)


def test_a_call_takes_the_space_and_the_fence_before_it() -> None:
    for pieces in (["Let me see.\n", "`", "``js", "on\n"], ["Let me see.\n\n```json\n"]):
        shaper = TextBeforeCall()
        assert "".join(map(shaper.push, pieces)) + shaper.end_at_call(is_bare=True) == "Let me see."


def test_a_call_with_a_tag_takes_the_space_alone() -> None:
    shaper = TextBeforeCall()
    assert shaper.push("a ``` \n") + shaper.end_at_call(is_bare=False) == "a ```"


def test_space_without_end_is_not_held_back() -> None:
    shaper = TextBeforeCall()
    assert len(shaper.push("\n" * 1000)) == 1000


def step(token_id: int) -> StepLogprobs:
    return StepLogprobs(TokenLogprob(token_id, -0.5), ())


def test_log_probabilities_come_with_the_text_of_their_token() -> None:
    shown = ShownLogprobs([b"a", b"bcd", b"", b"x"])

    def push(*token_ids: int, text: str, output: StepOutput | None = None) -> tuple[StepLogprobs, ...]:
        steps = tuple(map(step, token_ids))
        return shown.push(StreamDelta(text=text, token_ids=token_ids, logprobs=steps, output=output), text)

    assert push(0, 1, text="ab") == (step(0),)
    assert push(2, text="cd") == (step(1), step(2))
    assert push(3, 0, text="") == ()
    output = StepOutput(
        text="abcdx",
        token_ids=(0, 1, 2, 3),
        finish_reason="stop",
        usage=TokenUsage(prompt_tokens=1, cached_tokens=0, completion_tokens=6),
    )
    assert push(2, text="x", output=output) == (step(3),)


@given(st.lists(st.text("ab</", max_size=5), max_size=9), st.sampled_from(["", "</ab", "aab", "b"]))
def test_text_up_to_a_mark_comes_as_soon_as_it_can_be_no_beginning_of_it(pieces: list[str], mark: str) -> None:
    shaper, text, told = TextUpTo(mark), "", ""
    for piece in pieces:
        text, told = text + piece, told + shaper.push(piece)
        before = text.partition(mark)[0] if mark else text
        assert before.startswith(told)
        assert mark.startswith(before[len(told) :])
    assert told + shaper.end() == (text.partition(mark)[0] if mark else text)
