from pathlib import Path

import pytest

from sureact.home import home_folder


def test_the_variable_of_its_own_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SUREACT_HOME", str(tmp_path / "own"))
    assert home_folder() == tmp_path / "own"


@pytest.mark.parametrize(("xdg", "folder"), [("/x", Path("/x/sureact")), ("x", Path.home() / ".cache/sureact")])
def test_else_it_is_the_cache_of_the_user(monkeypatch: pytest.MonkeyPatch, xdg: str, folder: Path) -> None:
    monkeypatch.delenv("SUREACT_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    assert home_folder() == folder
