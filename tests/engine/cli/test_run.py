import io
import json
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.trace import read_trace
from sureact.cli import run
from sureact.cli.main import main
from sureact.config import EngineConfig

Start = Callable[[Sequence[str]], "subprocess.Popen[str]"]
TOOLS = '''
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the one.
        b: the other.
    """
    return a + b
'''


@pytest.fixture
def tool_file(tmp_path: Path) -> Path:
    path = tmp_path / "tools.py"
    path.write_text(TOOLS)
    return path


@pytest.fixture
def on_roomy(roomy_folder: Path, tool_file: Path) -> Callable[..., list[str]]:
    """Return a function that gives the words of a run on a tiny model."""
    engine = ("--quantization", "none", "--dtype", "float32", "--kv-cache-gb", "0.05")

    def words(*more: str, tools: Path = tool_file) -> list[str]:
        return ["run", "--tools", str(tools), "--model", str(roomy_folder), *engine, *more]

    return words


def last_record(path: Path) -> dict[str, object]:
    return read_trace(path)[-1]


def trace_of(folder: Path) -> Path:
    (path,) = (folder / "runs").glob("*.jsonl")
    return path


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that puts a scripted model in the place of the engine."""

    def put(*script: str) -> None:
        def load(config: EngineConfig) -> AbstractContextManager[ScriptedModel]:
            return nullcontext(ScriptedModel(script))

        monkeypatch.setattr(run, "load_engine", load)

    return put


ADDED = (
    " I add them.\n",
    'Action: add\nArguments: {"a": 1, "b": 2}\n',
    " I know it.\n",
    "Action: finish\nArguments: {}\n",
)


def test_the_answer_goes_to_standard_output_and_the_steps_to_standard_error(
    on_roomy: Callable[..., list[str]], say: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    say(*ADDED, '{"reasoning": "added", "answer": "It is three."}')
    assert main(on_roomy("what?", "--format", "fields")) == 0
    said = capsys.readouterr()
    assert said.out == "It is three.\n"
    assert "Step 1\n  Thought: I add them.\n" in said.err
    assert "Observation: 3\nStep 2\n  Thought: I know it.\n" in said.err
    assert "[2 steps, ended by finish;" in said.err


def test_json_holds_outputs_steps_and_the_trace_which_goes_to_the_store(
    on_roomy: Callable[..., list[str]],
    say: Callable[..., None],
    store_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(*ADDED, '{"reasoning": "added", "sum": 3}')
    assert main(on_roomy("what?", "--signature", "question -> sum: int", "--format", "fields", "--json")) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["outputs"] == {"sum": 3}
    assert result["reasoning"] == "added"
    assert [step["tool_name"] for step in result["steps"]] == ["add", "finish"]
    assert result["trace"] == str(trace_of(store_folder))
    assert last_record(trace_of(store_folder))["type"] == "outputs"


def test_several_inputs_come_as_json_and_several_outputs_leave_as_json(
    on_roomy: Callable[..., list[str]],
    say: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(*ADDED, '{"reasoning": "added", "sum": 3, "words": ["drei"]}')
    signature, trace = "a: int, b: int -> sum: int, words: list[str]", tmp_path / "mine.jsonl"
    words = ('{"a": 1, "b": 2}', "--signature", signature, "--format", "fields", "--trace", str(trace))
    assert main(on_roomy(*words)) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {"sum": 3, "words": ["drei"]}
    assert f"Trace: {trace}" in said.err
    assert read_trace(trace)[0]["inputs"] == {"a": 1, "b": 2}


def test_ctrl_c_leaves_a_trace_that_can_be_read(
    on_roomy: Callable[..., list[str]], start: Start, store_folder: Path
) -> None:
    process = start(on_roomy("what?", "--max-iters", "50"))
    deadline = time.monotonic() + 30
    while not list((store_folder / "runs").glob("*.jsonl")) or not read_trace(trace_of(store_folder)):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert out == ""
    assert said.endswith("Interrupted.\n")
    assert "Traceback" not in said
    assert last_record(trace_of(store_folder)) | {"time_s": 0, "run_id": ""} == {
        "type": "aborted",
        "run_id": "",
        "time_s": 0,
        "error": "KeyboardInterrupt",
        "message": "",
    }


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("",), 2, "The question is empty"),
        (("what?", "--signature", "question answer"), 2, "has 0 arrows"),
        (("what?", "--signature", "a, b -> c"), 2, "JSON object"),
        (("[1]", "--signature", "a, b -> c"), 2, "JSON object with the inputs a, b"),
        (('{"a": "x"}', "--signature", "a, b -> c"), 2, "Missing: `b`"),
        (("what?", "--format", "prose"), 2, "'fields', 'qwen_tool_call'"),
        (("what?", "--kv-cache-gb", "-1"), 2, "kv_cache_gb is -1"),
        (("what?", "--require-tool", "subtract"), 2, "subtract"),
        (("what?", "--max-tokens", "9"), 2, "TokenLimits.run is 9"),
        (("what?", "--max-seconds", "nan"), 2, "max_seconds"),
        (("what?", "--signature", "question -> keys"), 2, "keys"),
    ],
)
def test_what_is_wrong_is_refused_before_the_model_is_loaded(
    on_roomy: Callable[..., list[str]],
    words: tuple[str, ...],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(on_roomy(*words)) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert "Loading" not in captured.err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise RuntimeError('no key')", "line 1: RuntimeError: no key"),
        ("import sys\nsys.exit(3)", "line 2: SystemExit: 3"),
        ("def finish() -> str:\n    'End.'\n    return ''", "finish"),
        ("TOOLS = 3", "TOOLS"),
        ("x = 1", "holds no tools"),
        ("def f(:", "SyntaxError"),
        ("def f() -> int:\n    'One.'\n    return 1\ng = f\nTOOLS = [f, g]", "f"),
    ],
    ids=["raises", "exits", "finish", "no list", "no tools", "no Python", "doubles"],
)
def test_a_bad_tool_file_is_told_by_name_and_place(
    on_roomy: Callable[..., list[str]], tmp_path: Path, source: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.py"
    path.write_text(source)
    assert main(on_roomy("what?", tools=path)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert "Traceback" not in captured.err
    assert "Loading" not in captured.err


def test_a_tool_file_that_is_not_there_is_named(
    on_roomy: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(on_roomy("what?", tools=tmp_path / "gone.py")) == 2
    assert "gone.py" in capsys.readouterr().err


def test_no_steps_are_wrong_usage(on_roomy: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(on_roomy("what?", "--max-iters", "0"))
    assert stopped.value.code == 2
    assert "'0' is not a whole number of at least 1" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_each_call_is_asked_about_with_approve_and_the_answer_is_in_the_trace(
    on_roomy: Callable[..., list[str]],
    say: Callable[..., None],
    store_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(*ADDED, '{"reasoning": "added", "answer": "It is five."}')
    monkeypatch.setattr("sys.stdin", Terminal('edit {"a": 2, "b": 3}\n'))
    assert main(on_roomy("what?", "--format", "fields", "--approve")) == 0
    said = capsys.readouterr()
    assert said.out == "It is five.\n"
    assert '  Run add({"a": 1, "b": 2})? [run/deny REASON/edit JSON] ' in said.err
    assert "It gave: 5" in said.err
    (decision,) = [record for record in read_trace(trace_of(store_folder)) if record["type"] == "approval"]
    assert (decision["decision"], decision["tool_args"]) == ("edit", {"a": 2, "b": 3})


def test_approve_needs_a_terminal(
    on_roomy: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("run\n"))
    assert main(on_roomy("what?", "--approve")) == 2
    said = capsys.readouterr().err
    assert "--approve asks on the terminal" in said
    assert "Loading" not in said


def test_an_error_begins_a_line_of_its_own(
    on_roomy: Callable[..., list[str]], say: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    say(*ADDED[:1])
    assert main(on_roomy("what?", "--format", "fields")) == 1
    assert "  Thought: I add them.\nError: " in capsys.readouterr().err


def test_the_guards_of_a_run_have_options(
    on_roomy: Callable[..., list[str]], say: Callable[..., None], store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    say(*ADDED, '{"reasoning": "added", "answer": "It is three."}')
    options = ("--require-tool", "add", "--max-seconds", "1000", "--max-tokens", "5000", "--on-repeat", "remind")
    assert main(on_roomy("what?", "--format", "fields", *options)) == 0
    header = read_trace(trace_of(store_folder))[0]
    assert (header["on_repeat"], header["require_tools"]) == ("remind", ["add"])
    assert (header["limits"]["max_seconds"], header["limits"]["run"]) == (1000, 5000)
    for refused in (("--require-tool", "subtract"), ("--max-seconds", "0"), ("--max-tokens", "9")):
        assert main(on_roomy("what?", "--format", "fields", *refused)) == 2
        assert refused[1] in capsys.readouterr().err
