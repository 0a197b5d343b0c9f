from pathlib import Path

import pytest

from sureact.cli.recorded_model import recorded_model
from sureact.errors import ConfigError, ModelNotFoundError

SMALL = "qwen2.5-coder-0.5b-instruct"
HEADER = {"model": SMALL}


@pytest.fixture
def stored(store_folder: Path) -> None:
    """The small model, as far as its name goes, and another one."""
    for name in (SMALL, "other"):
        (store_folder / "models" / name).mkdir(parents=True)


def folder_of(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


@pytest.mark.usefixtures("stored")
def test_the_model_is_that_of_the_trace_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert recorded_model(None, HEADER) == SMALL
    for usual in ("other", "gone", "./no/such"):
        monkeypatch.setenv("SUREACT_MODEL", usual)
        assert recorded_model(None, HEADER) == SMALL


def test_a_folder_is_found_where_the_option_or_the_environment_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = str(folder_of(tmp_path, "mine"))
    assert recorded_model(mine, {"model": "mine"}) == mine
    monkeypatch.setenv("SUREACT_MODEL", mine)
    assert recorded_model(None, {"model": "mine"}) == mine


@pytest.mark.usefixtures("stored")
def test_another_model_is_refused() -> None:
    with pytest.raises(ConfigError, match=f"written with the model '{SMALL}', and --model is 'other'"):
        recorded_model("other", HEADER)


def test_a_model_that_is_not_found_says_how_to_name_or_get_it() -> None:
    with pytest.raises(ModelNotFoundError, match=r"sureact pull.*written with it.*name that with --model"):
        recorded_model(None, HEADER)
