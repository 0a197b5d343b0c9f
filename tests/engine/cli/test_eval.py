import json
import signal
import subprocess
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.engine.cli.conftest import SMALL_ENGINE
from tests.engine.evaluation.bfcl.bfcl_files import write_files

from sureact.cli.main import main
from sureact.evaluation.bfcl import bfcl_case, package
from sureact.evaluation.scoring import contender
from sureact.evaluation.scoring.suite import Case
from sureact.evaluation.tasks import task_case
from sureact.evaluation.tasks.task_case import TaskCase

Command = Callable[..., int]
needs_bfcl = pytest.mark.skipif(find_spec("bfcl_eval") is None, reason="bfcl-eval is not installed")


@pytest.fixture
def on_roomy(roomy_folder: Path) -> Command:
    """Run a command on a tiny model whose context holds the prompts of tasks."""
    return lambda *words: main([*words, "--model", str(roomy_folder), *SMALL_ENGINE, "--kv-cache-gb", "0.1"])


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random model never finishes; one step is enough to see that its runs are counted."""
    monkeypatch.setattr(task_case, "MAX_ITERS", 1)
    monkeypatch.setattr(bfcl_case, "MAX_ITERS", 1)


@pytest.fixture
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_files(tmp_path / "data")
    monkeypatch.setattr(bfcl_case, "data_folder", lambda: folder)


def test_tasks_are_counted_as_json(on_roomy: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_roomy("eval", "tasks", "--limit", "2", "--format", "fields", "--json") == 0
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert result["n"] == 2
    assert result["correct"] == result["accuracy"] == 0
    assert result["tokens"] > 0
    assert result["seconds"] > 0
    assert (result["suite"], result["format"], result["quantization"], result["peer"]) == (
        "tasks",
        "fields",
        "none",
        None,
    )
    assert {score["n"] for score in result["categories"].values()} == {1}
    assert "0 right of 2, 2 in all" in said.err


def test_a_second_run_takes_what_the_first_kept(on_roomy: Command, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("eval", "tasks", "--category", "arithmetic", "--limit", "1", "--json")
    assert on_roomy(*words) == 0
    first = capsys.readouterr()
    assert on_roomy(*words) == 0
    second = capsys.readouterr()
    assert first.out == second.out
    assert "1 in all)" in first.err
    assert "1 in all)" not in second.err


def test_cases_at_once_give_the_same_answers(
    on_roomy: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[list[tuple[str, str, int]]] = []
    for number in ("1", "3"):
        results = tmp_path / f"{number}.jsonl"
        words = ("--limit", "3", "--format", "fields", "--results", str(results), "--concurrency", number)
        assert on_roomy("eval", "tasks", *words) == 0
        records = map(json.loads, results.read_text(encoding="utf-8").splitlines())
        kept.append(sorted((record["case"], record["answer"], record["num_tokens"]) for record in records))
    assert len(kept[0]) == 3
    assert kept[0] == kept[1]


@needs_bfcl
@pytest.mark.usefixtures("own_files")
def test_a_peer_is_compared_case_by_case(on_roomy: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_roomy("eval", "bfcl", "--peer", "unconstrained", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["peer"] == "unconstrained"
    assert result["n"] == result["sureact"]["n"] == result["difference"]["n"] == 7
    assert result["difference"]["method"].startswith("Agresti-Min")
    low, high = result["difference"]["interval_95"]
    assert low <= result["difference"]["difference"] <= high
    assert result["sureact"]["valid"] == 7


@needs_bfcl
@pytest.mark.usefixtures("own_files")
def test_the_table_has_a_row_per_category_and_one_for_all(
    on_roomy: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--category", "simple", "--category", "multiple", "--peer", "unconstrained")
    assert on_roomy("eval", "bfcl", *words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["category", "n", "correct", "accuracy", "valid", "tokens", "seconds"]
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["sureact", "simple", "2"],
        ["sureact", "multiple", "1"],
        ["sureact", "all", "3"],
    ]
    assert lines[-1].startswith("sureact less unconstrained: ")
    assert "95 % interval" in lines[-1]


@needs_bfcl
@pytest.mark.usefixtures("own_files")
@pytest.mark.parametrize("words", [("--format", "fields"), ("--peer", "outlines", "--category", "parallel")])
def test_loops_and_other_peers_run_too(on_roomy: Command, words: Sequence[str]) -> None:
    assert on_roomy("eval", "bfcl", "--limit", "2", *words) == 0


def test_a_peer_with_a_loop_of_its_own_is_compared(on_roomy: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_roomy("eval", "tasks", "--limit", "1", "--peer", "dspy", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["peer"], result["n"], result["correct"], result["valid"]) == ("dspy", 1, 0, 0)
    assert result["sureact"]["valid"] == 1
    assert result["tokens"] > 0


def test_outcomes_of_another_version_are_run_again_and_that_is_said(
    on_roomy: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("eval", "tasks", "--limit", "2", "--category", "arithmetic")
    assert on_roomy(*words) == 0
    assert "another version" not in capsys.readouterr().err
    monkeypatch.setattr(task_case, "EVALUATION_VERSION", 99)
    assert on_roomy(*words) == 0
    said = capsys.readouterr().err
    assert "holds 2 outcomes of sureact that another version of the evaluation left, or other files or settings" in said
    assert "2 in all)" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tasks", "--category", "cooking"), "`eval tasks` has sqlite, files, calendar, arithmetic, search"),
        (("tasks", "--format", "chat"), "`eval tasks` takes fields, qwen_tool_call"),
        (("tasks", "--format", "verse"), "--format is 'verse'"),
        (
            ("tasks", "--peer", "gpt"),
            "there are unconstrained, llama.cpp, outlines, dspy, qwen-agent, qwen-agent-react",
        ),
        (
            ("bfcl", "--peer", "dspy"),
            "`eval bfcl` judges calls. Take it to `eval tasks`, or take one of unconstrained,",
        ),
        (("tasks", "--peer", "llama.cpp"), "with --gguf FILE"),
        (("tasks", "--peer", "llama.cpp", "--gguf", "none.gguf"), "none.gguf does not exist"),
        (("tasks", "--peer", "llama.cpp", "--concurrency", "2"), "leave out --concurrency"),
        (("tasks", "--gguf", "none.gguf"), "--gguf goes with --peer llama.cpp"),
        (("tasks", "--peer", "outlines", "--format", "fields"), "--format chat or --format qwen_tool_call"),
    ],
)
def test_wrong_usage_is_refused_before_the_model_is_loaded(
    on_roomy: Command, capsys: pytest.CaptureFixture[str], words: Sequence[str], said: str
) -> None:
    assert on_roomy("eval", *words) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Loading" not in told


def test_a_peer_or_package_that_is_missing_is_named(
    on_roomy: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def nothing(name: str) -> None:
        return None

    (tmp_path / "m.gguf").touch()
    monkeypatch.setattr(contender, "find_spec", nothing)
    monkeypatch.setattr(package, "find_spec", nothing)
    words = ("--peer", "llama.cpp", "--gguf", str(tmp_path / "m.gguf"), "--format", "qwen_tool_call")
    assert on_roomy("eval", "tasks", *words) == 2
    assert "needs the package llama_cpp" in capsys.readouterr().err
    package.load_checker.cache_clear()
    assert on_roomy("eval", "bfcl") == 2
    assert "pip install --no-deps bfcl-eval" in capsys.readouterr().err


def test_an_interrupt_says_where_finished_cases_are(
    on_roomy: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = TaskCase.run
    asked: list[Case] = []

    def interrupted(case: TaskCase, who: Any) -> Any:
        asked.append(case)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return run(case, who)

    monkeypatch.setattr(TaskCase, "run", interrupted)
    results = tmp_path / "r.jsonl"
    assert on_roomy("eval", "tasks", "--limit", "3", "--results", str(results)) == 130
    said = capsys.readouterr()
    assert said.out == ""
    assert f"Finished cases are kept in {results}" in said.err
    assert len(results.read_text().splitlines()) == 1


def test_ctrl_c_ends_the_process_with_130(
    roomy_folder: Path, start: "Callable[[Sequence[str]], subprocess.Popen[str]]", tmp_path: Path
) -> None:
    words = ["eval", "tasks", "--model", str(roomy_folder), *SMALL_ENGINE, "--kv-cache-gb", "0.1"]
    process = start([*words, "--results", str(tmp_path / "r.jsonl")])
    assert process.stderr is not None
    while "Running 60 cases" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "the same command goes on from there" in said
