import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sureact.catalog import disk_space
from sureact.catalog.resolve import ModelLocation, model_folder, resolve_model
from sureact.catalog.store import ModelStore
from sureact.errors import CheckpointError, DiskSpaceError, ModelNotFoundError

QWEN = "qwen2.5-coder-0.5b-instruct"


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "home")


@pytest.fixture(autouse=True)
def empty_hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    return cache


def test_a_catalogue_name_is_found_in_the_store(store: ModelStore) -> None:
    store.path_of(QWEN).mkdir(parents=True)
    assert resolve_model(QWEN.upper(), store) == ModelLocation(QWEN, store.path_of(QWEN), "folder")


def test_a_catalogue_name_that_is_not_on_disk_says_how_to_get_it(store: ModelStore) -> None:
    with pytest.raises(ModelNotFoundError, match=f"sureact pull {QWEN}"):
        resolve_model(QWEN, store)


def test_a_half_downloaded_model_is_reported_as_such(store: ModelStore) -> None:
    store.partial_path_of(QWEN).mkdir(parents=True)
    with pytest.raises(ModelNotFoundError, match="half downloaded"):
        resolve_model(QWEN, store)


def test_a_misspelled_name_gets_the_nearest_one_suggested(store: ModelStore) -> None:
    with pytest.raises(ModelNotFoundError, match=rf"Did you mean '{QWEN}'"):
        resolve_model("qwen2.5-coder-0.5b-instuct", store)


def test_where_none_is_near_each_known_name_is_told_once(store: ModelStore, tmp_path: Path) -> None:
    for name in (QWEN, "mine"):
        (tmp_path / "made" / name).mkdir(parents=True)
        store.install(name, tmp_path / "made" / name)
    with pytest.raises(ModelNotFoundError) as raised:
        resolve_model("zzz", store)
    assert str(raised.value).count(QWEN) == str(raised.value).count("mine") == 1


def test_a_folder_is_taken_as_it_is(store: ModelStore, tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        resolve_model(str(folder), store)
    (folder / "config.json").write_text("{}")
    assert resolve_model(str(folder), store) == ModelLocation("my-model", folder, "folder")


def test_a_gguf_file_is_recognized_by_its_content(store: ModelStore, tmp_path: Path) -> None:
    file = tmp_path / "my-model.gguf"
    file.write_bytes(b"GGUF...")
    assert resolve_model(str(file), store) == ModelLocation("my-model", file, "gguf")
    file.write_bytes(b"PK")
    with pytest.raises(CheckpointError, match="not a GGUF file"):
        resolve_model(str(file), store)


@pytest.mark.parametrize("path", ["./nowhere", "/nowhere/at/all", "nowhere.gguf", "a/b/c"])
def test_a_path_that_does_not_exist_is_not_found(path: str, store: ModelStore) -> None:
    with pytest.raises(ModelNotFoundError):
        resolve_model(path, store)


def test_a_hub_id_is_found_in_the_store(store: ModelStore) -> None:
    store.path_of("org/model").mkdir(parents=True)
    assert resolve_model("org/model", store) == ModelLocation("org/model", store.path_of("org/model"), "folder")


def test_a_hub_id_is_found_in_the_cache_of_the_hub(store: ModelStore, empty_hub_cache: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="sureact pull org/model"):
        resolve_model("org/model", store)
    repository = empty_hub_cache / "models--org--model"
    snapshot = repository / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors").write_bytes(b"")
    assert resolve_model("org/model", store) == ModelLocation("org/model", snapshot, "folder")


def test_a_gguf_file_is_converted_into_the_store_once(store: ModelStore, tmp_path: Path) -> None:
    file = tmp_path / "my-model.gguf"
    file.write_bytes(b"GGUF...")
    calls: list[Path] = []

    def convert(gguf_path: Path, destination: Path, progress: Callable[[str], None]) -> None:
        calls.append(gguf_path)
        progress("converting")
        destination.mkdir()

    location = resolve_model(str(file), store)
    first = model_folder(location, store, convert=convert)
    assert model_folder(location, store, convert=convert) == first
    assert first.is_relative_to(store.root / "models")
    assert calls == [file]
    assert file.exists()
    os.utime(file, ns=(1, 1))
    assert model_folder(location, store, convert=convert) != first


def test_a_folder_needs_no_conversion(store: ModelStore, tmp_path: Path) -> None:
    def convert(gguf_path: Path, destination: Path, progress: Callable[[str], None]) -> None:
        pytest.fail("converted")

    assert model_folder(ModelLocation("m", tmp_path, "folder"), store, convert=convert) == tmp_path


def test_too_small_a_disk_is_refused_before_the_conversion(
    store: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(gguf_path: Path, destination: Path, progress: Callable[[str], None]) -> None:
        pytest.fail("converted")

    file = tmp_path / "big.gguf"
    file.write_bytes(b"GGUF" + bytes(996))
    monkeypatch.setattr(disk_space.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(4999, 0, 4999))  # pyright: ignore
    with pytest.raises(DiskSpaceError, match=r"Converting .*big\.gguf needs"):
        model_folder(ModelLocation("big", file, "gguf"), store, convert=convert)


@pytest.mark.parametrize("name", ["~no-such-user/model", "m" * 5000, "nul\0"])
def test_what_can_be_no_path_is_an_unknown_name(name: str, store: ModelStore) -> None:
    with pytest.raises(ModelNotFoundError):
        resolve_model(name, store)
