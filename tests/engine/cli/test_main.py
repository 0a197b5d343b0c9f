import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import sureact
from sureact.cli import models
from sureact.cli.main import build_parser, main

COMMANDS = ("pull", "models", "run", "generate", "chat", "serve", "bench", "conformance", "doctor")
Start = Callable[[Sequence[str]], "subprocess.Popen[str]"]


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "sureact.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version_goes_to_standard_output() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"sureact {sureact.__version__}\n", "")


def test_asking_for_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom sureact.cli.main import main\n"
        "try: main(['generate', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('torch', 'transformers', 'rich', 'numpy', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_on_standard_output(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"usage: sureact {command}" in capsys.readouterr().out


def test_help_lists_what_there_is() -> None:
    text = build_parser().format_help()
    assert all(f"\n    {command}" in text for command in COMMANDS)


@pytest.mark.parametrize(
    "words", [[], ["nonsense"], ["generate"], ["generate", "hi", "--no-such-option"], ["run", "q"]]
)
def test_wrong_usage_exits_with_2_and_says_so_on_standard_error(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    said = capsys.readouterr()
    assert stopped.value.code == 2
    assert said.out == ""
    assert "error:" in said.err


def test_an_abbreviated_option_is_not_guessed() -> None:
    with pytest.raises(SystemExit):
        main(["generate", "hi", "--max-tok", "3"])


def test_a_users_error_has_no_traceback_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "hi", "--max-tokens", "0"]) == 2
    assert capsys.readouterr().err == "Error: max_tokens is 0; it must be at least 1.\n"
    assert main(["generate", "hi", "--max-tokens", "0", "--verbose"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_bug_asks_to_be_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> list[dict[str, object]]:
        raise KeyError("oops")

    monkeypatch.setattr(models, "listed_models", broken)
    assert main(["models"]) == 1
    said = capsys.readouterr().err
    assert "KeyError: 'oops'" in said
    assert "sureact doctor" in said
    assert "Traceback" not in said


def test_ctrl_c_exits_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> list[dict[str, object]]:
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "listed_models", interrupted)
    assert main(["models"]) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_an_error_that_ctrl_c_led_to_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> list[dict[str, object]]:
        try:
            raise KeyboardInterrupt
        finally:
            threading.Lock().release()  # as the lock of a Condition is, if its wait is interrupted at once

    monkeypatch.setattr(models, "listed_models", interrupted)
    assert main(["models"]) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_ctrl_c_ends_a_generation(start: Start, roomy_folder: Path) -> None:
    words = ["generate", "hi", "--model", str(roomy_folder), "--quantization", "none", "--dtype", "float32"]
    process = start([*words, "--ignore-eos", "--max-tokens", "15000"])
    assert process.stdout is not None
    assert process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert said.endswith("Interrupted.\n")
    assert "Traceback" not in said


def test_a_reader_that_leaves_is_no_error_to_shout_about(start: Start, roomy_folder: Path) -> None:
    words = ["generate", "hi", "--model", str(roomy_folder), "--quantization", "none", "--dtype", "float32"]
    process = start([*words, "--ignore-eos", "--max-tokens", "2000"])
    assert process.stdout is not None
    assert process.stdout.read(1)
    process.stdout.close()
    assert process.wait(timeout=30) == 1
    assert process.stderr is not None
    with process.stderr as stderr:
        assert "BrokenPipe" not in stderr.read()
