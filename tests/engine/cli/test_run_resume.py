import io
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from sureact.agent.scripted_model import ScriptedModel
from sureact.cli import run
from sureact.cli.main import main
from sureact.config import EngineConfig

TOOLS = '''
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"
'''
SCRIPT = (
    " I pay.\n",
    'Action: pay\nArguments: {"amount": 3}\n',
    " Done.\n",
    "Action: finish\nArguments: {}\n",
    '{"reasoning": "", "paid": 3}',
)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    path = tmp_path / "tools.py"
    path.write_text(TOOLS)
    return path


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that puts a scripted model in the place of the engine."""

    def put(*script: str) -> None:
        def load(config: EngineConfig) -> AbstractContextManager[ScriptedModel]:
            return nullcontext(ScriptedModel(script))

        monkeypatch.setattr(run, "load_engine", load)

    return put


@pytest.fixture
def cut(tmp_path: Path, tools: Path, say: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> Path:
    """A trace that ends in a call that had started."""
    path = tmp_path / "t.jsonl"
    say(*SCRIPT)
    words = ["--tools", str(tools), "--signature", "much -> paid: int", "--trace"]
    assert main(["run", "3?", *words, str(path), "--format", "fields", "--on-repeat", "run"]) == 0
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:5]))
    capsys.readouterr()
    say(*SCRIPT[2:])
    return path


def test_a_run_goes_on_with_what_it_was_begun_with(cut: Path, tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--resume", str(cut), "--tools", str(tools), "--on-unfinished", "run", "--json"]
    assert main(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["outputs"] == {"paid": 3}
    assert [step["observation"] for step in said["steps"]] == ["paid 3", "Completed."]
    assert said["trace"] == str(cut)
    # A finished run gives its answer once more.
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["outputs"] == {"paid": 3}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_asked(
    cut: Path, tools: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("\nIt was paid.\n"))
    assert main(["run", "--resume", str(cut), "--tools", str(tools)]) == 0
    said = capsys.readouterr()
    assert 'interrupted in step 1, in the call pay({"amount": 3}).' in said.err
    assert said.err.count("[run/skip/text]") == 2
    assert "Observation: It was paid." in said.err


@pytest.mark.parametrize(("stdin", "message"), [(io.StringIO(), "--on-unfinished run"), (Terminal(), "No answer")])
def test_without_an_answer_nothing_runs(
    cut: Path,
    tools: Path,
    stdin: io.StringIO,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = cut.read_bytes()
    monkeypatch.setattr("sys.stdin", stdin)
    assert main(["run", "--resume", str(cut), "--tools", str(tools)]) == 2
    assert message in capsys.readouterr().err
    assert cut.read_bytes() == before


def test_what_a_resumed_run_has_already_is_refused(cut: Path, tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--resume", str(cut), "--tools", str(tools)]
    for more, message in ((["question"], "leave QUESTION out"), (["--trace", "x"], "leave --trace out")):
        assert main([*words, *more]) == 2
        assert message in capsys.readouterr().err


def test_changed_tools_are_refused_unless_allowed(cut: Path, tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools.write_text(TOOLS.replace("Pay.", "Pay at once."))
    words = ["run", "--resume", str(cut), "--tools", str(tools), "--on-unfinished", "skip"]
    assert main(words) == 2
    assert "'pay' has another description or schema" in capsys.readouterr().err
    assert main([*words, "--allow-changed-tools"]) == 0
