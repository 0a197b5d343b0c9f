import argparse

import pytest

from sureact.cli.main import main
from sureact.cli.store_once import StoreOnce


def test_one_file_is_kept() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", action=StoreOnce)
    assert parser.parse_args([]).tools is None
    assert parser.parse_args(["--tools", "a.py"]).tools == "a.py"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["serve", "--tools", "a.py", "--tools=b.py"], "--tools"),
        (["serve", "--api-keys", "a.py", "--api-keys", "b.py"], "--api-keys"),
        (["run", "why", "--tools", "a.py", "--tools", "b.py"], "--tools"),
        (["generate", "hi", "--schema", "a.py", "--schema", "b.py"], "--schema"),
    ],
)
def test_a_second_file_is_refused(words: list[str], option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert f"{option}: given twice, a.py and b.py; it takes one file" in capsys.readouterr().err
