import io
import json
import sys
from datetime import date
from pathlib import Path

import pytest

from sureact.cli.console import ask, error_console, note, output_console, table_text, working, write_json, write_result


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_results_go_to_a_pipe_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    write_result("\x1b[31mred", end="")
    assert capsys.readouterr() == ("\x1b[31mred", "")


def test_results_on_a_terminal_are_made_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    write_result("\x1b[31mred")
    assert terminal.getvalue() == "␛[31mred\n"


def test_json_holds_what_json_cannot_hold_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"path": Path("a"), "day": date(2026, 1, 31), "text": "é", "more": (1, None)})
    assert json.loads(capsys.readouterr().out) == {"path": "a", "day": "2026-01-31", "text": "é", "more": [1, None]}


def test_notes_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    note("hello")
    assert capsys.readouterr() == ("", "hello\n")


def test_a_question_goes_to_standard_error_and_a_line_or_the_end_of_the_input_answers_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(" yes \n"))
    assert ask("Go on? ") == "yes"
    assert ask("And \x1b? ") is None
    assert capsys.readouterr() == ("", "Go on? And ␛? \n")


def test_working_writes_a_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with working("Loading"):
        pass
    assert capsys.readouterr() == ("", "Loading ...\n")


def test_the_console_takes_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    error_console().print("[bold]:smile: " + "x" * 200)
    assert capsys.readouterr() == ("", "[bold]:smile: " + "x" * 200 + "\n")


def test_columns_of_a_table_line_up() -> None:
    assert table_text([("A", "LONG"), ("bbb", "c")]) == "A    LONG\nbbb  c"


def test_the_console_of_results_writes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    output_console().print("[b]as it is[/b]")
    assert capsys.readouterr().out == "[b]as it is[/b]\n"
