import io

import pytest

from sureact.agent.events import AnswerReady, CallDelta, CallStarted, Event, ObservationReady, RunStarted, ThoughtDelta
from sureact.agent.run_printer import RunPrinter

RUN: list[Event] = [
    RunStarted({"question": "?"}, ("search",), 20),
    ThoughtDelta(0, " 我来"),
    ThoughtDelta(0, "查。\n"),
    CallDelta(0, "Action: sea"),
    CallDelta(0, 'rch\nAction Input: {"q": "a"}\n'),
    CallStarted(0, "search", {"q": "a"}),
    ObservationReady(0, "x\ny", False, False),
    ThoughtDelta(1, " I know"),
    CallDelta(1, "Final Answer:\n"),
    CallStarted(1, "finish", {}),
    ObservationReady(1, "Completed.", False, False),
    AnswerReady({"reasoning": "", "answer": "42"}, "finish"),
]
TEXT = (
    "Thought: 我来查。\n"
    'Action: search\nAction Input: {"q": "a"}\n'
    "Observation: x\ny\n"
    "Thought: I know\n"
    "Final Answer:\n42\n"
)


def printed(events: list[Event], color: bool | None = None) -> str:
    file = io.StringIO()
    printer = RunPrinter(file, color)
    for event in events:
        printer(event)
    return file.getvalue()


def test_a_run_is_printed_as_the_lines_of_the_format():
    assert printed(RUN) == TEXT


def test_the_model_is_green_and_the_tools_are_blue():
    text = printed(RUN, color=True)
    assert "\033[34mObservation: x\ny\n\033[0m" in text
    assert "\033[32mThought: 我来\033[0m\033[32m查。\n\033[0m" in text
    assert text.replace("\033[32m", "").replace("\033[34m", "").replace("\033[0m", "") == TEXT


def test_an_answer_without_a_last_step_gets_its_label():
    assert printed([*RUN[:7], RUN[-1]]).endswith("Observation: x\ny\nFinal Answer:\n42\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("no_color", "is_colored"), [("", True), ("1", False)])
def test_a_terminal_is_colored_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, no_color: str, is_colored: bool):
    monkeypatch.setenv("NO_COLOR", no_color)
    file = Terminal()
    RunPrinter(file)(ThoughtDelta(0, " a"))
    assert ("\033[32m" in file.getvalue()) == is_colored


def test_what_a_tool_gave_cannot_steer_the_terminal():
    text = printed([ObservationReady(0, "\033[2J\x9b1m\r", True, False)])
    assert text == "Observation: ␛[2J\ufffd1m␍\n"
