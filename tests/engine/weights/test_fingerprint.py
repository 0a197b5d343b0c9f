"""A model is known by what is in its files."""

import os
import shutil
from pathlib import Path

import pytest

from sureact.weights.fingerprint import file_fingerprint, model_fingerprint


@pytest.fixture
def copied(tiny_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_folder, tmp_path / "copy"))


def test_a_copied_model_is_the_same(tiny_folder: Path, copied: Path) -> None:
    for path in copied.iterdir():
        os.utime(path, (1, 1))
    (copied / "quantized").mkdir(exist_ok=True)
    (copied / "quantized" / "int8.safetensors").write_bytes(b"derived")
    assert model_fingerprint(copied) == model_fingerprint(tiny_folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_another_config_or_tokenizer_is_another_model(tiny_folder: Path, copied: Path, name: str) -> None:
    with (copied / name).open("a") as file:
        file.write("\n")
    assert model_fingerprint(copied) != model_fingerprint(tiny_folder)


def test_other_weights_of_the_same_size_are_another_model(tiny_folder: Path, copied: Path) -> None:
    path = copied / "model.safetensors"
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(content[:half] + bytes(byte ^ 1 for byte in content[half:]))
    assert model_fingerprint(copied) != model_fingerprint(tiny_folder)


def test_what_one_file_lost_another_cannot_make_up_for(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "config.json").write_text("{}")
    (folders[1] / "tokenizer.json").write_text("{}")
    assert model_fingerprint(folders[0]) != model_fingerprint(folders[1])


def test_a_file_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "b", "c")]
    for path, content in zip(files, (b"x" * 9000, b"x" * 9000, b"x" * 9001), strict=True):
        path.write_bytes(content)
    first, same, longer = map(file_fingerprint, files)
    assert first == same != longer
