import errno
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import HFValidationError, OfflineModeIsEnabled

from sureact.catalog.hub import fetch_snapshot, is_wanted
from sureact.catalog.pull_progress import PullProgress, ignore_progress
from sureact.errors import (
    ChecksumError,
    DiskSpaceError,
    IndexUnreachableError,
    ModelNotFoundError,
    UnsupportedModelError,
)


@dataclass
class FakeLfs:
    sha256: str


@dataclass
class FakeFile:
    rfilename: str
    size: int = 3
    lfs: FakeLfs | None = None


@dataclass
class FakeHub:
    """Stands in for `HfApi`."""

    siblings: list[FakeFile]
    sha: str = "abc"
    error: Exception | None = None
    fetched: list[str] = field(default_factory=list[str])

    def model_info(self, repo_id: str, *, files_metadata: bool) -> "FakeHub":
        if self.error:
            raise self.error
        return self

    def hf_hub_download(self, repo_id: str, name: str, *, revision: str, local_dir: Path) -> None:
        assert revision == "abc"
        self.fetched.append(name)
        (local_dir / name).write_bytes(b"123")
        (local_dir / ".cache").mkdir(exist_ok=True)


def _use(monkeypatch: pytest.MonkeyPatch, hub: FakeHub) -> FakeHub:
    def api(*_: Any) -> FakeHub:
        return hub

    monkeypatch.setattr(huggingface_hub, "HfApi", api)
    return hub


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "merges.txt", "chat_template.jinja", "x.model"])
def test_files_of_a_model_are_wanted(name: str) -> None:
    assert is_wanted(name)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "modeling.py", "onnx/model.json", "x.pkl"])
def test_pickle_code_and_other_formats_are_not(name: str) -> None:
    assert not is_wanted(name)


def test_only_the_wanted_files_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["config.json", "model.safetensors", "pytorch_model.bin", "modeling_x.py"]
    hub = _use(monkeypatch, FakeHub([FakeFile(name) for name in names]))
    events: list[PullProgress] = []
    fetch_snapshot("org/model", tmp_path, events.append)
    assert hub.fetched == ["config.json", "model.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    assert [(event.bytes_done, event.bytes_total) for event in events] == [(0, 6), (3, 6), (6, 6)]


def test_a_repository_without_safetensors_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, FakeHub([FakeFile("config.json"), FakeFile("pytorch_model.bin")]))
    with pytest.raises(UnsupportedModelError, match="no safetensors"):
        fetch_snapshot("org/model", tmp_path, ignore_progress)


@pytest.mark.parametrize(("content", "is_accepted"), [(b"123", True), (b"124", False)])
def test_a_file_must_have_the_sum_that_the_hub_lists(
    content: bytes, is_accepted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = FakeLfs(hashlib.sha256(content).hexdigest())
    _use(monkeypatch, FakeHub([FakeFile("config.json"), FakeFile("model.safetensors", lfs=listed)]))
    if is_accepted:
        fetch_snapshot("org/model", tmp_path, ignore_progress)
    else:
        with pytest.raises(ChecksumError, match=listed.sha256):
            fetch_snapshot("org/model", tmp_path, ignore_progress)
    assert (tmp_path / "model.safetensors").exists() is is_accepted


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OfflineModeIsEnabled("offline"), IndexUnreachableError),
        (OSError(errno.ENOSPC, "No space left on device"), DiskSpaceError),
        (ConnectionError("no route"), IndexUnreachableError),
        (HFValidationError("bad id"), ModelNotFoundError),
    ],
)
def test_what_the_hub_says_becomes_an_error_of_ours(
    error: Exception, expected: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _use(monkeypatch, FakeHub([], error=error))
    with pytest.raises(expected, match=r"org/model|GB free"):
        fetch_snapshot("org/model", tmp_path, ignore_progress)


def test_an_environment_that_forbids_to_ask_the_hub_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, FakeHub([], error=OfflineModeIsEnabled("offline")))
    with pytest.raises(IndexUnreachableError, match="HF_HUB_OFFLINE=0") as caught:
        fetch_snapshot("org/model", tmp_path, ignore_progress)
    assert "Check the network" not in str(caught.value)
