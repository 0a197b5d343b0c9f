import errno
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from sureact.catalog.store import ModelStore
from sureact.errors import ConfigError, DiskSpaceError, ModelNotFoundError, PullError


def _install(store: ModelStore, name: str, content: bytes = b"12345") -> Path:
    folder = store.partial_path_of(name) / "converted"
    folder.mkdir(parents=True)
    (folder / "config.json").write_bytes(content)
    return store.install(name, folder)


def test_the_root_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SUREACT_HOME", raising=False)
    assert ModelStore().root == tmp_path / "cache" / "sureact"
    monkeypatch.setenv("SUREACT_HOME", str(tmp_path / "home"))
    assert ModelStore().root == tmp_path / "home"
    assert ModelStore(tmp_path / "given").root == tmp_path / "given"


def test_a_relative_cache_folder_counts_as_unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SUREACT_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert ModelStore().root == tmp_path / ".cache" / "sureact"


def test_nothing_is_created_before_it_is_needed(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "home")
    assert store.models() == []
    assert not store.has("m")
    assert not store.root.exists()
    assert store.runs_folder.is_dir()


def test_a_model_is_listed_once_it_is_installed(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    store.partial_path_of("org/half").mkdir(parents=True)
    path = _install(store, "org/whole")
    assert [(m.name, m.path, m.size_bytes) for m in store.models()] == [("org/whole", path, 5)]
    assert store.has("org/whole")
    assert not store.has("org/half")
    assert store.is_partial("org/half")
    assert not store.is_partial("org/whole")


def test_installing_replaces_what_is_there_and_drops_the_partial_state(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    _install(store, "m", b"old")
    path = _install(store, "m", b"new")
    assert (path / "config.json").read_bytes() == b"new"
    assert not store.partial_path_of("m").exists()


def test_removing_frees_a_model_and_its_partial_state(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    _install(store, "m")
    store.partial_path_of("m").mkdir()
    assert store.remove("m") == 5
    assert store.models() == []
    with pytest.raises(ModelNotFoundError, match="not on this disk"):
        store.remove("m")


def test_a_model_held_by_another_process_is_not_touched(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    _install(store, "m")
    (tmp_path / "models" / ".locks").mkdir()
    with FileLock(tmp_path / "models" / ".locks" / "m.lock"), pytest.raises(PullError, match="Another process"):
        store.remove("m")
    assert store.has("m")


@pytest.mark.parametrize(
    "name", ["", "..", "../x", "a/../b", "/etc", "a/b/c", "a b", "m.partial", "a--b", ".hidden", "a/"]
)
def test_a_name_that_is_no_model_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a model name"):
        ModelStore(tmp_path).path_of(name)


@given(st.text(max_size=12))
def test_no_name_leads_out_of_the_store(name: str) -> None:
    store = ModelStore(Path("/store"))
    try:
        path = store.path_of(name)
    except ConfigError:
        return
    assert path.resolve().parent == Path("/store/models")


def test_a_store_that_cannot_be_made_names_its_variable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way, as a read-only folder would be, for root too")
    store = ModelStore(tmp_path / "file" / "home")
    for use in (lambda: store.runs_folder, lambda: store.create_partial("m"), lambda: store.lock("m").__enter__()):
        with pytest.raises(ConfigError, match=r"file/home cannot be used: .* SUREACT_HOME"):
            use()
    assert store.models() == []
    assert not store.has("m")


def test_a_full_disk_is_told_with_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(DiskSpaceError, match="GB free"):
        ModelStore(tmp_path / "home").create_partial("m")


def test_the_home_of_nobody_is_refused() -> None:
    with pytest.raises(ConfigError, match="SUREACT_HOME"):
        ModelStore(Path("~no-such-user/home"))
