import io
from typing import Any

import pytest

from sureact.agent.call_history import LmCall, print_history
from sureact.agent.transcript import Transcript
from sureact.errors import ConfigError
from sureact.outputs import StepOutput, TokenUsage
from sureact.sampling_params import SamplingParams


def call(prompt: str, text: str) -> LmCall:
    usage = TokenUsage(prompt_tokens=12, cached_tokens=8, completion_tokens=3)
    output = StepOutput(text=text, token_ids=(1, 2, 3), finish_reason="stop", usage=usage)
    return LmCall("id", 1e9, "tiny", SamplingParams(), True, output, 0.25, Transcript().extended(12, prompt))


def printed(*calls: LmCall, **options: Any) -> str:
    file = io.StringIO()
    print_history(calls, file=file, **options)
    return file.getvalue()


def test_the_last_call_is_printed_with_prompt_response_and_counts():
    text = printed(call("old", "older"), call("What is it?", "A test."))
    assert "old" not in text
    for part in ("] tiny", "Prompt:\nWhat is it?", "Response, constrained:\nA test.", "8 of them cached", "0.25 s"):
        assert part in text
    assert "\033" not in text


def test_more_are_printed_oldest_first():
    text = printed(call("one", "1"), call("two", "2"), call("three", "3"), n=2)
    assert "one" not in text
    assert text.index("two") < text.index("three")
    assert printed(n=3) == ""


def test_control_characters_do_not_steer_the_terminal():
    assert "␛[2J" in printed(call("\033[2J", "\x9b"))
    assert "\x9b" not in printed(call("\033[2J", "\x9b"))


@pytest.mark.parametrize("is_terminal", [True, False])
def test_colors_are_for_terminals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: bool
):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal, raising=False)
    print_history([call("q", "a")])
    assert ("\033[32ma\033[0m" in capsys.readouterr().out) == is_terminal
    monkeypatch.setenv("NO_COLOR", "1")
    print_history([call("q", "a")])
    assert "\033" not in capsys.readouterr().out


@pytest.mark.parametrize("n", [0, -1, 1.5, "2", True])
def test_numbers_that_mean_nothing_are_refused(n: Any):
    with pytest.raises(ConfigError, match="must be a whole number, at least 1"):
        printed(call("q", "a"), n=n)
