"""The file of a session says what it needs, and is refused where that is not there."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from sureact.engine import Engine
from sureact.errors import SessionError
from sureact.saved_session import FORMAT_VERSION, SessionOrigin, read_session, write_session

ORIGIN = SessionOrigin(model_name="tiny", fingerprint="f" * 64, kv_settings={"torch": "1", "dtype": "float32"})
LAYERS = [(torch.arange(24.0).reshape(3, 2, 4), torch.ones(3, 2, 4)) for _ in range(2)]

Change = Callable[[dict[str, torch.Tensor], dict[str, Any]], object]


def changed(path: Path, change: Change) -> Path:
    """Rewrite a session file with its tensors and description changed."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  it has no __iter__
        metadata = json.loads(file.metadata()["sureact_session"])
    change(tensors, metadata)
    save_file(tensors, path, {"sureact_session": json.dumps(metadata)})
    return path


def without(name: str) -> Change:
    return lambda tensors, metadata: tensors.pop(name)


def having(name: str, tensor: torch.Tensor) -> Change:
    return lambda tensors, metadata: tensors.update({name: tensor})


def described(**values: object) -> Change:
    return lambda tensors, metadata: metadata.update(values)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "session.safetensors"
    write_session(path, ORIGIN, [1, 2, 3, 4], LAYERS)
    return path


def test_what_was_written_is_read(saved: Path) -> None:
    session = read_session(saved, ORIGIN)
    assert session.token_ids == [1, 2, 3, 4]
    assert session.reason == ""
    for pair, expected in zip(session.layers, LAYERS, strict=True):
        assert torch.equal(pair[0], expected[0])
        assert torch.equal(pair[1], expected[1])


@pytest.mark.parametrize("token_ids", [[], [5], list(range(1000))])
def test_token_ids_alone_need_no_keys_and_values(tmp_path: Path, token_ids: list[int]) -> None:
    write_session(tmp_path / "s", ORIGIN, token_ids, [])
    session = read_session(str(tmp_path / "s"), ORIGIN)
    assert (session.token_ids, session.layers, session.reason) == (token_ids, [], "")


def test_keys_and_values_of_other_settings_are_left_aside_with_the_reason(saved: Path) -> None:
    other = replace(ORIGIN, kv_settings={"torch": "2", "dtype": "float32", "cpu": "AVX2"})
    session = read_session(saved, other)
    assert session.token_ids == [1, 2, 3, 4]
    assert session.layers == []
    assert session.reason == "torch was 1, is 2, cpu was None, is AVX2"


def test_another_model_is_refused_with_what_was_found_and_what_is_needed(saved: Path) -> None:
    other = replace(ORIGIN, model_name="larger", fingerprint="e" * 64)
    with pytest.raises(SessionError, match=r"saved with tiny \(files f{12}\); this engine runs larger \(files e{12}\)"):
        read_session(saved, other)


def test_the_same_files_under_another_name_are_the_same_model(saved: Path) -> None:
    assert read_session(saved, replace(ORIGIN, model_name="copy")).token_ids == [1, 2, 3, 4]


def test_another_format_is_refused_with_both_numbers(saved: Path) -> None:
    changed(saved, described(format_version=FORMAT_VERSION + 1))
    with pytest.raises(SessionError, match=rf"format {FORMAT_VERSION + 1}; this version of sureact reads format 1"):
        read_session(saved, ORIGIN)


@pytest.mark.parametrize("content", [b"", b"\x80\x04K*.", b"{}", b"\xff" * 100, b"8" * 8 + b"{}"])
def test_a_file_that_is_no_safetensors_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(SessionError, match="cannot be read as a session"):
        read_session(tmp_path / "s", ORIGIN)


def test_a_file_that_is_cut_off_is_refused(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-1])
    with pytest.raises(SessionError, match="cannot be read as a session"):
        read_session(saved, ORIGIN)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="absent"):
        read_session(tmp_path / "absent", ORIGIN)


def test_other_safetensors_are_no_session(tmp_path: Path) -> None:
    save_file({"weight": torch.ones(2)}, tmp_path / "s")
    with pytest.raises(SessionError, match="not a session"):
        read_session(tmp_path / "s", ORIGIN)


@pytest.mark.parametrize(
    "change",
    [
        without("token_ids"),
        having("token_ids", torch.ones(4)),
        having("token_ids", torch.ones(2, 2, dtype=torch.int64)),
        having("token_ids", torch.ones(2, dtype=torch.int64)),
        without("layers.1.values"),
        having("layers.1.keys", torch.ones(2, 2, 4)),
        having("layers.0.keys", torch.ones(3)),
        described(fingerprint=None),
        described(num_layers="2"),
        described(num_layers=3),
        described(num_layers=1),
        described(num_layers=0),
        described(num_layers=-1),
        described(num_layers=10**12),
        having("layers.2.keys", torch.ones(3, 2, 4)),
        described(kv_settings={"torch": [1]}),
        described(kv_settings=[]),
    ],
)
def test_damage_is_told_from_what_is_missing_or_misshapen(saved: Path, change: Change) -> None:
    changed(saved, change)
    with pytest.raises(SessionError, match="is damaged"):
        read_session(saved, ORIGIN)


def test_a_description_that_is_not_json_is_damage(tmp_path: Path) -> None:
    save_file({"token_ids": torch.ones(1, dtype=torch.int64)}, tmp_path / "s", {"sureact_session": "{"})
    with pytest.raises(SessionError, match="not JSON"):
        read_session(tmp_path / "s", ORIGIN)


def test_a_file_is_replaced_whole_or_not_at_all(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", fail)
        with pytest.raises(SessionError, match=r"cannot be written.*disk full"):
            write_session(saved, ORIGIN, [9], [])
    assert read_session(saved, ORIGIN).token_ids == [1, 2, 3, 4]
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]
    write_session(saved, ORIGIN, [9], [])
    assert read_session(saved, ORIGIN).token_ids == [9]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="absent"):
        write_session(tmp_path / "absent" / "s", ORIGIN, [1], [])


def test_an_engine_says_what_its_keys_and_values_depend_on(tiny_engine: Engine) -> None:
    origin = tiny_engine.session_origin
    assert origin.model_name == tiny_engine.name
    named = {"sureact", "torch", "cpu", "cpu_ops", "device"}
    named |= {"quantization", "dtype", "kv_cache_dtype", "determinism"}
    assert origin.kv_settings.keys() == named
    assert origin.kv_settings["dtype"] == "float32"


@pytest.mark.parametrize("path", ["", ".", "/", "a\0b", None, 3])
def test_a_path_that_names_no_file_is_refused(path: Any) -> None:
    with pytest.raises(SessionError, match="it must name a file"):
        write_session(path, ORIGIN, [1], [])
    with pytest.raises(SessionError, match="it must name a file"):
        read_session(path, ORIGIN)


def test_threads_that_save_to_one_path_leave_one_whole_session(saved: Path) -> None:
    def save(token_id: int) -> None:
        for _ in range(10):
            write_session(saved, ORIGIN, [token_id], LAYERS[:0])
            assert len(read_session(saved, ORIGIN).token_ids) == 1

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(save, range(4)))
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]
