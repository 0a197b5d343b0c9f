import io

import pytest
from rich.console import Console

from sureact.agent.approval import Allow, Deny, Edit, PendingCall, Verdict
from sureact.agent.events import CallDelta
from sureact.agent.tool import Tool
from sureact.cli.step_display import StepDisplay
from sureact.cli.terminal_approval import TerminalApproval
from sureact.errors import ConfigError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def decided(monkeypatch: pytest.MonkeyPatch, typed: str) -> Verdict:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    display = StepDisplay(Console(file=io.StringIO()))
    return TerminalApproval(display)(PendingCall(Tool(pay), {"amount": 3}))


@pytest.mark.parametrize(
    ("typed", "verdict"),
    [
        ("run\n", Allow()),
        ("RUN\n", Allow()),
        ("deny\n", Deny()),
        ("deny too much \n", Deny("too much")),
        ('edit {"amount": 1}\n', Edit({"amount": 1})),
    ],
)
def test_a_call_is_run_denied_or_edited(monkeypatch: pytest.MonkeyPatch, typed: str, verdict: Verdict) -> None:
    assert decided(monkeypatch, typed) == verdict


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("\n", "Answer run, deny"),
        ("yes\n", "Answer run, deny"),
        ("run it\n", "Answer run, deny"),
        ("edit\n", "no JSON"),
        ("edit [1]\n", "no JSON object"),
        ('edit {"amount": "all"}\n', "do not fit"),
    ],
)
def test_another_answer_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, typed: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert decided(monkeypatch, f"{typed}run\n") == Allow()
    said = capsys.readouterr().err
    assert told in said
    assert said.count('Run pay({"amount": 3})? [run/deny REASON/edit JSON]') == 2


def test_without_an_answer_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="No answer on whether pay"):
        decided(monkeypatch, "")


def test_without_a_terminal_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("run\n"))
    with pytest.raises(ConfigError, match="--approve asks on the terminal"):
        TerminalApproval(StepDisplay(Console(file=io.StringIO())))


def test_the_open_line_ends_before_the_question_which_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("run\n"))
    screen = io.StringIO()
    display = StepDisplay(Console(file=screen, width=80, markup=False, highlight=False, soft_wrap=True))
    approve = TerminalApproval(display)
    display(CallDelta(0, "pay"))
    approve(PendingCall(Tool(pay), {"amount": "\x9b2J"}))
    assert screen.getvalue().endswith("pay\n")
    assert "\x9b" not in capsys.readouterr().err
