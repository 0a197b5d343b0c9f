import os
from pathlib import Path

import pytest

from sureact.errors import ConfigError
from sureact.server.client_key import KeyFile, KeyLimits, read_keys

KEY = "k" * 32
OTHER = "o" * 32
NONE = KeyLimits()


def test_a_file_holds_keys_names_limits_and_comments() -> None:
    keys = read_keys(f"# ours\n\nteam-a:{KEY} running=2 queued=0 rpm=60\n  {OTHER}\n", KeyLimits(max_running=5))
    assert keys[0].name == "team-a"
    assert keys[0].limits == KeyLimits(max_running=2, max_queued=0, max_requests_per_minute=60)
    assert keys[1].name.startswith("key-")
    assert keys[1].limits == KeyLimits(max_running=5)
    assert keys[0].salt != keys[1].salt
    assert KEY not in repr(keys)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "short\n",
        f"a b:{KEY}\n",
        f"na/me:{KEY}\n",
        f"{KEY} speed=1\n",
        f"{KEY} running=0\n",
        f"{KEY} running=many\n",
        f"a:{KEY}\nb:{KEY}\n",
        f"a:{KEY}\na:{OTHER}\n",
        f"{KEY}é\n",
    ],
)
def test_other_files_are_refused_without_showing_keys(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_keys(text, NONE)
    assert KEY not in str(refused.value)


def test_keys_are_found(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"a:{KEY}\nb:{OTHER}\n")
    keys = KeyFile(str(path), NONE)
    found = keys.find(OTHER)
    assert found is not None
    assert found.name == "b"
    assert keys.find(KEY + "x") is None
    assert keys.find("") is None


def test_a_changed_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureact.server.client_key._CHECK_EVERY_S", 0)
    path = tmp_path / "keys"
    path.write_text(f"a:{KEY}\n")
    keys = KeyFile(str(path), NONE)
    later = tmp_path / "later"
    later.write_text(f"b:{OTHER}\n")
    later.replace(path)
    assert keys.find(KEY) is None
    assert keys.find(OTHER) is not None


def test_a_file_that_cannot_be_read_leaves_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureact.server.client_key._CHECK_EVERY_S", 0)
    path = tmp_path / "keys"
    path.write_text(f"a:{KEY}\n")
    keys = KeyFile(str(path), NONE)
    path.write_text("nonsense\n")
    assert keys.find(KEY) is not None
    path.unlink()
    assert keys.find(KEY) is not None


def test_a_key_is_compared_with_all_of_them_in_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys"
    path.write_text(f"a:{KEY}\nb:{OTHER}\n")
    keys = KeyFile(str(path), NONE)
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("hmac.compare_digest", compare)
    for presented in (KEY, OTHER, KEY[:-1], ""):
        compared.clear()
        found = keys.find(presented)
        assert (found is not None) == (presented in (KEY, OTHER))
        assert len(compared) == 2
        assert {len(digest) for pair in compared for digest in pair} == {len(compared[0][0])}


def test_it_is_read_again_when_told_to(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"a:{KEY}\n")
    keys = KeyFile(str(path), NONE)
    status = path.stat()
    path.write_text(f"a:{OTHER}\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # so that it does not look changed
    assert keys.find(OTHER) is None
    keys.reload()
    assert keys.find(OTHER) is not None


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        KeyFile(str(tmp_path / "none"), NONE)
