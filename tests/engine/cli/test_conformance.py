import json
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from sureact.cli.main import main

Start = Callable[[Sequence[str]], "subprocess.Popen[str]"]

ORDERED = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "additionalProperties": False}
CASES: list[dict[str, Any]] = [
    {
        "description": "ordered",
        "schema": ORDERED,
        "tests": [{"data": {"a": 1, "b": 2}, "valid": True}, {"data": {"a": "x"}, "valid": False}],
    },
    {"description": "turned", "schema": ORDERED, "tests": [{"data": {"b": 1, "a": 1}, "valid": True}]},
]
REQUIRED_KEYS = [
    "schemas",
    "passing",
    "compile_errors",
    "guarded_schemas",
    "rejects_valid_schemas",
    "accepts_invalid_schemas",
    "valid_instances",
    "rejected_valid",
    "invalid_instances",
    "accepted_invalid",
    "late_vetoes",
    "compile_ms",
    "mask_us",
]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "cases.json").write_text(json.dumps(CASES))
    (folder / "package.json").write_text("{}")
    return str(folder)


def test_a_table_says_what_was_accepted_and_refused(corpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", corpus]) == 0
    said = capsys.readouterr()
    rows = dict(line.split("  ", 1) for line in said.out.splitlines())
    assert rows["passing"].strip() == "1 (50.00 %)"
    assert rows["valid rejected"].strip() == "1 of 2, in 1 schema"
    assert rows["invalid accepted"].strip() == "0 of 1, in 0 schemas"
    assert "the 256 bytes" in rows["compile"]
    assert "Ignored, being no cases: package.json." in said.err
    assert "`sureact pull" in said.err
    assert "Running 2 schemas" in said.err


def test_json_has_the_promised_keys_first(corpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", corpus, "--json", "--reorder"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result)[: len(REQUIRED_KEYS)] == REQUIRED_KEYS
    assert (result["schemas"], result["passing"], result["valid_instances"]) == (2, 2, 2)
    assert result["compile_ms"]["p50"] > 0
    assert list(result["mask_us"]) == ["p50", "p99", "max"]
    assert (result["engine"], result["timing_vocabulary"]) == ("sureact", "bytes")


def test_key_order_any_takes_what_the_schemas_order_refuses(corpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", corpus, "--json", "--key-order", "any"]) == 0
    assert json.loads(capsys.readouterr().out)["passing"] == 2


def test_failures_are_lines_that_say_where_and_why(corpus: str, tmp_path: Path) -> None:
    failures = tmp_path / "failures.jsonl"
    assert main(["conformance", corpus, "--failures", str(failures)]) == 0
    [line] = map(json.loads, failures.read_text().splitlines())
    assert (line["file"], line["case"], line["reason"]) == ("cases.json", "turned", "rejects_valid")
    assert line["instance"] == '{"b": 1, "a": 1}'
    assert line["detail"].startswith("Refused at byte ")


@pytest.mark.parametrize(("least", "code"), [("50", 0), ("50.1", 1)])
def test_fail_under_decides_the_exit_code(
    corpus: str, capsys: pytest.CaptureFixture[str], least: str, code: int
) -> None:
    assert main(["conformance", corpus, "--json", "--fail-under", least]) == code
    said = capsys.readouterr()
    assert json.loads(said.out)["passing"] == 1
    assert ("50.00 % of the schemas pass, less than 50.1 %" in said.err) == bool(code)


def test_a_damaged_file_does_not_end_the_run_but_fails_it(corpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(corpus) / "broken.json").write_text('{"schema": ')
    assert main(["conformance", corpus, "--json"]) == 1
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert (result["passing"], result["damaged_files"]) == (1, 1)
    assert "Left out: broken.json cannot be read as JSON: " in said.err
    assert "1 file was left out" in said.err


def test_a_damaged_file_given_alone_is_wrong_usage(corpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(corpus) / "broken.json").write_text('{"schema": ')
    assert main(["conformance", f"{corpus}/broken.json"]) == 2
    assert "broken.json cannot be read as JSON: " in capsys.readouterr().err


def test_a_model_cuts_the_instances_into_its_tokens(
    corpus: str, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conformance", corpus, "--json", "--model", str(tiny_folder)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["passing"], result["timing_vocabulary"]) == (1, "model")


def test_remotes_closing_and_formats_reach_the_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remotes = tmp_path / "remotes"
    remotes.mkdir()
    (remotes / "integer.json").write_text('{"type": "integer"}')
    cases = [
        {"schema": {"$ref": "http://localhost:1234/integer.json"}, "tests": [{"data": 1, "valid": True}]},
        {"schema": {"type": "string", "format": "date"}, "tests": [{"data": "soon", "valid": True}]},
        {"schema": {"properties": {"a": {}}}, "tests": [{"data": {"b": 1}, "valid": False}]},
    ]
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(cases))
    words = ["conformance", str(file), "--json"]
    assert main([*words, "--remotes", str(remotes), "--format", "annotate", "--close"]) == 0
    assert json.loads(capsys.readouterr().out)["passing"] == 3
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["passing"] == 0


def test_a_peer_runs_on_the_same_files(corpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", corpus, "--json", "--engine", "llguidance"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == "llguidance"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["{corpus}", "--remotes", "nowhere"], "nowhere does not exist"),
        (["{corpus}", "--engine", "llguidance", "--close"], "options of sureact"),
        (["{corpus}", "--failures", "{corpus}"], "cannot be written"),
        (["{corpus}/package.json"], "package.json is of no known kind"),
    ],
)
def test_wrong_usage_is_refused_by_name(
    corpus: str, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["conformance", *(word.format(corpus=corpus) for word in words)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.skipif(find_spec("xgrammar") is not None, reason="xgrammar is installed")
def test_a_peer_that_is_not_installed_is_named(corpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", corpus, "--engine", "xgrammar"]) == 2
    assert "pip install 'sureact[xgrammar]'" in capsys.readouterr().err


@pytest.mark.parametrize("percent", ["-1", "101", "many"])
def test_fail_under_takes_a_percentage(corpus: str, percent: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["conformance", corpus, "--fail-under", percent])
    assert stopped.value.code == 2


def test_ctrl_c_ends_a_run(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(2_000):
        schema = {"type": "array", "items": {"const": number}, "uniqueItems": True}
        (folder / f"{number}.json").write_text(
            json.dumps({"schema": schema, "tests": [{"data": list(range(500)), "valid": False}]})
        )
    process = start(["conformance", str(folder)])
    assert process.stderr is not None
    while "Running" not in process.stderr.readline():
        pass
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "Traceback" not in said
