import argparse

import pytest

from sureact.cli.main import build_parser, main
from sureact.cli.serve import server_config
from sureact.server.server_config import ServerConfig


def parsed(*words: str) -> argparse.Namespace:
    return build_parser().parse_args(["serve", *words])


def test_it_listens_on_this_machine_unless_told_otherwise() -> None:
    assert server_config(parsed()) == ServerConfig()
    told = server_config(parsed("--host", "::1", "--port", "9", "--served-model-name", "m", "--keep-alive-s", "2.5"))
    assert told == ServerConfig(host="::1", port=9, served_model_name="m", keep_alive_s=2.5)


def test_a_wrong_setting_is_told_before_the_model_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "70000", "--model", "nowhere"]) == 2
    assert "port is 70000" in capsys.readouterr().err


def test_a_model_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--model", "nowhere"]) == 1
    assert "nowhere" in capsys.readouterr().err
