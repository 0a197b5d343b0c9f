import json
from pathlib import Path

import pytest

from sureact.catalog.store import ModelStore
from sureact.cli.main import main
from sureact.cli.models import listed_models


def install(name: str) -> Path:
    store = ModelStore()
    source = store.root / "made"
    source.mkdir(parents=True)
    (source / "model.safetensors").write_bytes(bytes(2_000_000))
    return store.install(name, source)


def test_the_catalogue_is_listed_with_what_is_on_disk(capsys: pytest.CaptureFixture[str]) -> None:
    install("me/mine")
    install("smollm2-135m-instruct")
    ModelStore().partial_path_of("qwen2.5-coder-0.5b-instruct").mkdir(parents=True)
    assert main(["models"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    lines = {line.split()[0]: line for line in said.out.splitlines()}
    assert lines["qwen2.5-coder-0.5b-instruct"].endswith("half downloaded")
    assert lines["qwen2.5-coder-1.5b-instruct"].endswith("not on disk")
    assert lines["smollm2-135m-instruct"].endswith("0.00 GB")
    assert lines["me/mine"].endswith("0.00 GB")


def test_json_has_paths_and_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    path = install("smollm2-135m-instruct")
    assert main(["models", "--json"]) == 0
    found = {model["name"]: model for model in json.loads(capsys.readouterr().out)}
    assert found["smollm2-135m-instruct"]["path"] == str(path)
    assert found["smollm2-135m-instruct"]["size_bytes"] == 2_000_000
    assert found["qwen2.5-coder-1.5b-instruct"]["state"] == "not on disk"


def test_rm_removes_a_model_and_says_what_it_freed(capsys: pytest.CaptureFixture[str]) -> None:
    install("smollm2-135m-instruct")
    assert main(["models", "rm", "SmolLM2-135M-Instruct"]) == 0
    assert "0.00 GB are free again" in capsys.readouterr().err
    assert all(model["state"] != "on disk" for model in listed_models())


def test_rm_of_what_is_not_there_fails_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "rm", "nothing"]) == 1
    assert "'nothing' is not on this disk" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["models", "--json", "rm"], ["models", "rm", "--json"]], ids=" ".join)
def test_rm_says_in_json_what_it_freed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    install("smollm2-135m-instruct")
    assert main([*words, "SmolLM2-135M-Instruct"]) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": "smollm2-135m-instruct", "bytes": 2_000_000}
