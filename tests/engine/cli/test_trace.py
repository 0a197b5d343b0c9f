import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from sureact.agent.react import ReAct
from sureact.agent.react_v2 import ReActV2
from sureact.agent.scripted_model import ScriptedModel, byte_vocabulary
from sureact.cli import trace
from sureact.cli.main import build_parser, main
from sureact.config import EngineConfig
from sureact.errors import SureactError, TraceError

SCRIPT = [
    " I look.\n",
    'Action: look\nArguments: {"what": "\x1b[31mé"}\n'.replace("\x1b", "\\u001b"),
    " Done.\n",
    "Action: finish\nArguments: {}\n",
    '{"reasoning": "", "answer": "so"}',
]


class ShowingModel(ScriptedModel):
    vocabulary = byte_vocabulary()


def look(what: str) -> str:
    """Look something up."""
    return f"\x1b[2J {what}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two runs, the second one aborted."""
    path = tmp_path / "t.jsonl"
    ReAct("question -> answer", [look], lm=ShowingModel(SCRIPT), prompt_format="fields", trace=path)(question="Who?")
    react = ReAct("q -> a", [], lm=ShowingModel([KeyboardInterrupt("stop")]), prompt_format="fields", trace=path)
    with pytest.raises(KeyboardInterrupt):
        react(q="\ud800")
    return path


def run_ids(path: Path) -> list[str]:
    return list(dict.fromkeys(json.loads(line)["run_id"] for line in path.read_text().splitlines()))


def test_show_writes_each_run_as_it_went(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "show", str(file)]) == 0
    shown = capsys.readouterr().out
    first, second = run_ids(file)
    assert f"Run {first}\n" in shown
    assert f"Run {second}\n" in shown
    assert 'Inputs: {"question": "Who?"}\nStep 1\n  Thought: I look.\n' in shown
    assert "  Observation: \u241b[2J \u241b[31mé\nStep 2\n" in shown
    assert '  Answer: {"reasoning": "", "answer": "so"}\n[2 steps, ended by finish;' in shown
    assert "[0 steps, aborted by KeyboardInterrupt: stop]" in shown
    assert "\x1b" not in shown


def test_show_takes_one_run_by_the_start_of_its_id(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = run_ids(file)
    assert main(["trace", "show", str(file), "--run", second[:12]]) == 0
    assert first not in capsys.readouterr().out


def test_show_reads_version_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "old.jsonl"
    start = {"time_s": 1.0, "run_id": "a"}
    step = {"index": 0, "thought": "Hm.", "tool_name": "look", "tool_args": {}, "observation": "seen"}
    records = [
        {"type": "header", "version": 1, "sureact_version": "0.1.0", "model": "m", "prompt_format": "fields"}
        | {"tools": [], "inputs": {}},
        {"type": "thought", "step": 0, "text": "Hm."},
        {"type": "call_started", "step": 0, "tool_name": "look", "tool_args": {"a": 1}},
        {"type": "observation", "step": 0, "finished": step},
        {"type": "truncated", "dropped_steps": [0]},
    ]
    path.write_text("".join(json.dumps({**record, **start}) + "\n" for record in records))
    assert main(["trace", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert '  Thought: Hm.\n  look {"a": 1}\n  Observation: seen\n  Context full: dropped steps 1\n' in shown
    assert "[1 step, not finished]" in shown
    assert main(["trace", "html", str(path)]) == 0


def test_html_writes_a_page_beside_the_file_or_where_asked(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "html", str(file)]) == 0
    page = file.with_name("t.jsonl.html")
    assert capsys.readouterr().out == f"{page}\n"
    assert page.read_text().startswith("<!doctype html>")
    assert main(["trace", "html", str(file), "-o", "-"]) == 0
    assert capsys.readouterr().out == page.read_text()
    assert main(["trace", "html", str(file), "-o", str(tmp_path / "no" / "page.html")]) == 1
    assert "cannot be written: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["show", "html", "replay"])
def test_what_cannot_be_read_is_refused(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    newer = tmp_path / "newer.jsonl"
    newer.write_text('{"type": "header", "version": 99, "sureact_version": "9.9", "run_id": "a", "time_s": 1}\n')
    for path, message in ((tmp_path / "none.jsonl", "cannot be read"), (empty, "run"), (newer, "sureact 9.9")):
        assert main(["trace", command, str(path)]) == 1
        assert message in capsys.readouterr().err


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, scripted_folder: Path) -> Callable[..., None]:
    """Return a function that puts a scripted model in the place of the engine."""

    def put(*script: str) -> None:
        def load(config: EngineConfig) -> AbstractContextManager[ScriptedModel]:
            return nullcontext(ShowingModel(script))

        monkeypatch.setattr(trace, "load_engine", load)

    return put


def damaged(value: Any) -> Iterator[Any]:
    """Yield the value with each key in it, at any depth, dropped or replaced."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        for key, inner in fields.items():
            rest = {name: other for name, other in fields.items() if name != key}
            yield from (rest, rest | {key: 5}, rest | {key: 1e30}, *(rest | {key: worse} for worse in damaged(inner)))
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        yield from ([worse, *items[1:]] for worse in (damaged(items[0]) if items else ()))


@pytest.mark.parametrize("what", [["show"], ["html"], ["show", "--run", "x"]])
def test_no_damage_is_called_a_bug(file: Path, what: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    lines = file.read_text().splitlines()
    added = [
        {"type": "approval", "step": 0, "tool_name": "look", "decision": "edit", "reason": None, "tool_args": {}},
        {"type": "truncated", "dropped_steps": [0], "trimmed_steps": [1]},
        {"type": "resumed", "version": 3, "sureact_version": "0", "step": 1, "unfinished": "run"},
    ]
    lines[4:4] = [json.dumps({"run_id": run_ids(file)[0], "time_s": 1.0, **record}) for record in added]
    arguments = build_parser().parse_args(["trace", *what, str(file)])
    refusals: list[str] = []
    num_shown = 0
    for number, line in enumerate(lines):
        for record in damaged(json.loads(line)):
            file.write_text("\n".join([*lines[:number], json.dumps(record), *lines[number + 1 :], ""]))
            try:
                arguments.command(arguments)
                num_shown += 1
            except SureactError as error:
                refusals.append(str(error))
    capsys.readouterr()
    assert [refusal for refusal in refusals if not refusal.startswith(f"Trace file {file}")] == []
    assert (num_shown > 0) == ("--run" not in what)


@pytest.mark.parametrize(
    ("number", "change", "told"),
    [
        (0, {"time_s": None}, r"the header of the run \w+ is damaged: it lacks 'time_s'"),
        (0, {"time_s": 1e30}, r"the header of the run \w+ is damaged: OverflowError"),
        (0, {"run_id": 5}, "record 1, of type 'header', is damaged: TypeError 'run_id' is 5"),
        (2, {"text": 5}, "record 3, of type 'thought', is damaged: "),
        (3, {"generation": {"text": "f"}}, "record 4, of type 'call', is damaged: it lacks 'token_ids'"),
        (-1, {"error": None}, "of type 'aborted', is damaged: it lacks 'error'"),
        (-1, {"message": None}, r"the end of the run \w+ is damaged: it lacks 'message'"),
    ],
)
def test_damage_is_told_with_its_place(
    file: Path, number: int, change: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = file.read_text().splitlines()
    record = {name: value for name, value in (json.loads(lines[number]) | change).items() if value is not None}
    lines[number] = json.dumps(record)
    file.write_text("\n".join([*lines, ""]))
    assert main(["trace", "show", str(file)]) == 1
    assert re.search(rf"^Error: Trace file {re.escape(str(file))}: .*{told}", capsys.readouterr().err)


@pytest.mark.parametrize("what", ["show", "html"])
def test_a_damaged_record_is_told_as_such(file: Path, what: str) -> None:
    arguments = build_parser().parse_args(["trace", what, str(file)])
    lines = file.read_text().splitlines()
    first_of_type = {json.loads(line)["type"]: number for number, line in reversed([*enumerate(lines)])}
    told: set[str] = set()
    for kind, number in first_of_type.items():
        for key in json.loads(lines[number]):
            for other in ({}, {key: 5}):
                record = {name: value for name, value in json.loads(lines[number]).items() if name != key} | other
                file.write_text("\n".join([*lines[:number], json.dumps(record), *lines[number + 1 :], ""]))
                try:
                    arguments.command(arguments)
                except TraceError:
                    told.add(kind)
    assert told >= {"header", "thought", "call", "observation"}


def test_replay_says_that_all_is_the_same(
    file: Path, say: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    say(*SCRIPT)
    assert main(["trace", "replay", str(file), "--run", run_ids(file)[0]]) == 0
    assert "2 steps, the whole run.\n" in capsys.readouterr().out
    say(*SCRIPT)
    assert main(["trace", "replay", str(file), "--run", run_ids(file)[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["difference"] is None


def test_replay_takes_the_model_of_the_trace_and_no_other(
    file: Path, monkeypatch: pytest.MonkeyPatch, scripted_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded: list[str] = []

    def load(config: EngineConfig) -> AbstractContextManager[ScriptedModel]:
        loaded.append(config.model)
        return nullcontext(ShowingModel(SCRIPT))

    monkeypatch.setattr(trace, "load_engine", load)
    scripted_folder.with_name("other").mkdir()
    words = ["trace", "replay", str(file), "--run", run_ids(file)[0]]
    assert main([*words, "--model", "other"]) == 2
    assert "written with the model 'scripted', and --model is 'other'" in capsys.readouterr().err
    assert main(words) == 0
    assert loaded == ["scripted"]


def test_replay_refuses_a_run_without_token_ids_before_a_model_is_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "redacted.jsonl"
    model = ShowingModel(SCRIPT)
    ReAct("question -> answer", [look], lm=model, prompt_format="fields", trace=path, redact=["question"])(question="?")
    assert main(["trace", "replay", str(path)]) == 1
    assert "its trace lacks token ids" in capsys.readouterr().err


def test_replay_names_the_first_token_that_differs(
    file: Path, say: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    say(" I see.\n", *SCRIPT[1:])
    words = ["trace", "replay", str(file), "--run", run_ids(file)[0]]
    assert main(words) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "of the thought of step 1 differs: recorded id 108, now id 115." in said.err
    assert "Now:      'Thought: I see.\\n'" in said.err
    say(" I see.\n", *SCRIPT[1:])
    assert main([*words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["difference"]["replayed_id"] == 115


def test_a_run_of_several_calls_a_turn_is_refused_before_a_model_is_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.jsonl"
    script = ["Done.", '<tool_call>\n{"name": "submit", "arguments": {"answer": "so"}}\n</tool_call>']
    ReActV2("question -> answer", [], lm=ScriptedModel(script), trace=path)(question="Who?")
    tools = tmp_path / "tools.py"
    tools.write_text('def look(what: str) -> str:\n    """Look."""\n    return what\n')
    for words in (["trace", "replay", str(path)], ["run", "--resume", str(path), "--tools", str(tools)]):
        assert main(words) == 1
        assert "can be shown, but not resumed or replayed" in capsys.readouterr().err
    assert main(["trace", "show", str(path)]) == 0
