import io

from rich.console import Console

from sureact.agent.events import (
    AnswerReady,
    CallDelta,
    CallStarted,
    CallWithdrawn,
    ContextTruncated,
    EndedEarly,
    Event,
    ObservationReady,
    OutputDelta,
    RunStarted,
    ThoughtDelta,
)
from sureact.cli.step_display import StepDisplay
from sureact.outputs import EarlyEnd


def shown(*events: Event) -> str:
    screen = io.StringIO()
    display = StepDisplay(Console(file=screen, width=80, markup=False, highlight=False, soft_wrap=True))
    for event in events:
        display(event)
    return screen.getvalue()


def test_a_run_is_shown_step_by_step() -> None:
    text = shown(
        RunStarted({"question": "q"}, ("add", "finish"), 5),
        ThoughtDelta(0, " I add"),
        ThoughtDelta(0, " them."),
        CallDelta(0, "add("),
        CallDelta(0, "1, 2)"),
        CallStarted(0, "add", {"a": 1, "b": 2}),
        ObservationReady(0, "3", is_error=False, is_repeat=False),
        ThoughtDelta(1, "Done."),
        OutputDelta('{"answer": "3"}'),
        AnswerReady({"answer": "3"}, "finish"),
    )
    assert text == (
        "Step 1\n  Thought: I add them.\n  add(1, 2)\n  Observation: 3\n"
        'Step 2\n  Thought: Done.\n  Answer: {"answer": "3"}\n'
    )


def test_blank_ends_of_parts_are_left_out_and_calls_have_the_labels_of_their_format() -> None:
    text = shown(
        ThoughtDelta(0, " One\n"),
        ThoughtDelta(0, "\ntwo.\n"),
        CallDelta(0, "Action: add\n"),
        CallDelta(0, 'Arguments: {"a": 1}\n'),
        ObservationReady(0, "3\n", is_error=False, is_repeat=False),
        AnswerReady({}, "finish"),
    )
    assert text == ('Step 1\n  Thought: One\n    \n    two.\n  Action: add\n  Arguments: {"a": 1}\n  Observation: 3\n')


def test_what_is_thought_between_tags_is_told_from_the_thought() -> None:
    text = shown(ThoughtDelta(0, "Hm.\n", is_thinking=True), ThoughtDelta(0, "I add.\n"), AnswerReady({}, "finish"))
    assert text == "Step 1\n  Thinking: Hm.\n  Thought: I add.\n"


def test_a_line_that_is_open_can_be_ended() -> None:
    screen = io.StringIO()
    display = StepDisplay(Console(file=screen, width=80, markup=False, highlight=False, soft_wrap=True))
    display(ThoughtDelta(0, "I"))
    display.close()
    display.close()
    assert screen.getvalue() == "Step 1\n  Thought: I\n"


def test_observations_of_calls_that_ran_side_by_side_stand_under_their_steps() -> None:
    text = shown(
        ThoughtDelta(0, "Both."),
        CallDelta(0, "add(1)", "call_0_0"),
        CallDelta(1, "add(2)", "call_0_1"),
        ObservationReady(0, "3", is_error=False, is_repeat=False, call_id="call_0_0"),
        ObservationReady(1, "4", is_error=False, is_repeat=False, call_id="call_0_1"),
    )
    assert text == (
        "Step 1\n  Thought: Both.\n  add(1)\nStep 2\n  add(2)\nStep 1\n  Observation: 3\nStep 2\n  Observation: 4"
    )


def test_an_error_is_called_one_and_lines_are_indented() -> None:
    text = shown(ThoughtDelta(0, "x"), ObservationReady(0, "one\ntwo", is_error=True, is_repeat=False))
    assert "  Error: one\n    two" in text


def test_dropped_steps_are_told_by_their_numbers() -> None:
    assert "Context full: dropped steps 1, 2" in shown(ContextTruncated((0, 1), 300))


def test_what_a_tool_writes_cannot_steer_the_terminal() -> None:
    text = shown(ObservationReady(0, "\x1b[2J[bold]", is_error=False, is_repeat=False))
    assert "␛[2J[bold]" in text


def test_a_call_that_is_taken_back_and_a_full_context_say_what_is_done() -> None:
    text = shown(
        CallDelta(1, "add(1)"),
        CallWithdrawn(1, "add", {"a": 1}),
        CallDelta(1, "sub(1)"),
        ContextTruncated((0,), 9, (1, 2)),
    )
    assert text == (
        "Step 2\n  add(1)\n  Taken back: it repeats an earlier call; another tool is decided on\n  sub(1)\n"
        "  Context full: cut the observations of steps 2, 3; dropped steps 1\n"
    )


def test_what_was_ended_early_is_told_where_it_stands() -> None:
    text = shown(
        ThoughtDelta(0, "Again again"),
        EndedEarly("thought", 0, EarlyEnd("repetition", 96, None)),
        CallDelta(0, "add(000)"),
        EndedEarly("call", 0, EarlyEnd("number_length", 40, "/a")),
        ObservationReady(0, "0", is_error=False, is_repeat=False),
    )
    assert text == (
        "Step 1\n  Thought: Again again\n  Ended early: the text: repetition\n  add(000)\n"
        "  Ended early: /a: number length\n  Observation: 0"
    )
