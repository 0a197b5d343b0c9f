import io
import json
import random
import subprocess
import sys
import time
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
def say(monkeypatch: pytest.MonkeyPatch, scripted_folder: Path) -> Callable[..., None]:
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


def test_a_run_goes_on_with_its_own_model_and_no_other(
    cut: Path, tools: Path, monkeypatch: pytest.MonkeyPatch, store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded: list[str] = []

    def load(config: EngineConfig) -> AbstractContextManager[ScriptedModel]:
        loaded.append(config.model)
        return nullcontext(ScriptedModel(SCRIPT[2:]))

    monkeypatch.setattr(run, "load_engine", load)
    (store_folder / "models" / "other").mkdir()
    words = ["run", "--resume", str(cut), "--tools", str(tools), "--on-unfinished", "skip"]
    assert main([*words, "--model", "other"]) == 2
    assert "written with the model 'scripted', and --model is 'other'" in capsys.readouterr().err
    assert main(words) == 0
    assert loaded == ["scripted"]


def test_a_run_goes_on_with_what_it_was_begun_with(cut: Path, tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--resume", str(cut), "--tools", str(tools), "--on-unfinished", "run", "--json"]
    assert main(words) == 0
    shown = capsys.readouterr()
    said = json.loads(shown.out)
    assert said["outputs"] == {"paid": 3}
    call = 'Action: pay\n  Arguments: {"amount": 3}'
    assert f"Step 1\n  Thought: I pay.\n  {call}\n  Observation: paid 3\nStep 2\n" in shown.err
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


@pytest.mark.parametrize("option", [("--run", "a"), ("--on-unfinished", "skip"), ("--allow-changed-tools",)])
def test_what_only_a_resumed_run_has_is_refused_without_one(
    tools: Path, option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "3?", "--tools", str(tools), *option]) == 2
    assert f"{option[0]} goes with --resume FILE" in capsys.readouterr().err


def test_changed_tools_are_refused_unless_allowed(cut: Path, tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools.write_text(TOOLS.replace("Pay.", "Pay at once."))
    words = ["run", "--resume", str(cut), "--tools", str(tools), "--on-unfinished", "skip"]
    assert main(words) == 2
    assert "'pay' has another description or schema" in capsys.readouterr().err
    assert main([*words, "--allow-changed-tools"]) == 0


KILLED_RUN = '''
import json, os, sys, time
from pathlib import Path
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.tool import Tool
from sureact.agent.trace import read_trace

path, seconds = Path(sys.argv[1]), float(sys.argv[2])
script = [
    " I add.\\n", 'Action: add\\nArguments: {"a": 1}\\n',
    " It fails.\\n", 'Action: fail\\nArguments: {"reason": "no"}\\n',
    " Once more.\\n", 'Action: add\\nArguments: {"a": 1}\\n',
    " Done.\\n", "Action: finish\\nArguments: {}\\n", '{"reasoning": "added", "answer": 3}',
]


class SlowModel(ScriptedModel):
    """Says the text that follows those in the trace, with pauses to be killed in."""

    def session(self):
        session = super().session()
        stream = session.stream

        def slow(*args):
            done = sum(record["type"] in ("thought", "call") for record in read_trace(path))
            self.script = script[done:]
            for delta in stream(*args):
                time.sleep(seconds)
                yield delta

        session.stream = slow
        return session


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    time.sleep(5 * seconds)
    return a + b


def fail(reason: str) -> str:
    """Fail."""
    time.sleep(5 * seconds)
    raise ValueError(reason)


tools = [Tool(add, idempotent=True), Tool(fail, idempotent=True)]
agent = ReAct("question -> answer: int", tools, lm=SlowModel([]), prompt_format="fields", trace=path)
has_header = path.exists() and b"\\n" in path.read_bytes()
print("ready", flush=True)
prediction = agent.resume(path) if has_header else agent(question="1 + 2?")
print(json.dumps([dict(prediction.trajectory), dict(prediction), prediction.termination_reason]))
'''


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_process_that_is_killed_again_and_again_ends_as_if_it_had_not_been(tmp_path: Path, seed: int) -> None:
    """Ten kills each, so a hundred in all."""
    program, path, num_kills = tmp_path / "program.py", tmp_path / "t.jsonl", 0
    program.write_text(KILLED_RUN)
    draws = random.Random(seed)

    def start(seconds: float, path: Path = path) -> subprocess.Popen[str]:
        words = [sys.executable, str(program), str(path), str(seconds)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    while num_kills < 10:
        process = start(0.003)
        time.sleep(draws.uniform(0, 0.25))
        num_kills += process.poll() is None
        process.kill()
        process.communicate()
        if path.exists() and b'"type": "outputs"' in path.read_bytes():
            path.unlink()  # it came to its end; the next one begins anew
    said, _ = start(0).communicate()
    whole, _ = start(0, tmp_path / "whole.jsonl").communicate()
    assert json.loads(said) == json.loads(whole)


@pytest.mark.parametrize("given", [(), ("--signature", "much -> day: date")])
def test_types_of_the_signature_come_back_from_the_trace(
    tmp_path: Path, tools: Path, say: Callable[..., None], capsys: pytest.CaptureFixture[str], given: tuple[str, ...]
) -> None:
    path = tmp_path / "day.jsonl"
    script = (*SCRIPT[:4], '{"reasoning": "", "day": "2024-03-01"}')
    say(*script)
    words = ["--tools", str(tools), "--signature", "much -> day: date", "--trace", str(path), "--format", "fields"]
    assert main(["run", "3?", *words]) == 0
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:6]))  # up to the first observation
    say(*script[2:])
    capsys.readouterr()
    assert main(["run", "--resume", str(path), "--tools", str(tools), *given]) == 0
    assert capsys.readouterr().out.endswith("2024-03-01\n")
