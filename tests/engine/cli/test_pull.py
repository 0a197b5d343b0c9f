import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from sureact.catalog.pull_progress import PullProgress
from sureact.cli import pull
from sureact.cli.main import main


def test_a_folder_is_pulled_and_its_place_is_the_result(
    tiny_folder: Path, store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pull", "me/tiny", "--from", str(tiny_folder)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{store_folder / 'models' / 'me--tiny'}\n"
    assert said.err == "copying ...\n"


def test_json_names_model_and_folder(tiny_folder: Path, store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pull", "me/tiny", "--from", str(tiny_folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "name": "me/tiny",
        "path": str(store_folder / "models" / "me--tiny"),
    }


def test_a_truncated_folder_is_refused_and_not_installed(
    tiny_folder: Path, store_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    shutil.copytree(tiny_folder, source)
    weights = source / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert main(["pull", "me/tiny", "--from", str(source)]) == 1
    assert f"{weights} is truncated" in capsys.readouterr().err
    assert not (store_folder / "models" / "me--tiny").exists()


def test_an_unknown_name_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pull", "qwen2.5-coder-05b-instruct"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "Did you mean 'qwen2.5-coder-0.5b-instruct'?" in said.err


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pull", "qwen2.5-coder-0.5b-instruct", "--from", str(tmp_path / "gone")]) == 1
    assert f"{tmp_path / 'gone'} does not exist" in capsys.readouterr().err


def test_a_terminal_gets_a_bar_per_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr(pull, "error_console", lambda: console)
    with pull.shown_progress() as show:
        for done in (0, 50, 100):
            show(PullProgress("downloading", done, 100))
        show(PullProgress("converting the weights", 0, 0))
    shown = screen.getvalue()
    assert "downloading" in shown
    assert "100/100 bytes" in shown
    assert "converting the weights" in shown
