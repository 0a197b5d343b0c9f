import argparse
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from sureact.cli.main import build_parser, main
from sureact.cli.serve import server_config
from sureact.config import EngineConfig
from sureact.engine import Engine
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


def test_it_serves_the_model_at_the_address_until_it_is_ended(
    tiny_engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    served: list[uvicorn.Config] = []
    ports: list[int] = []

    @contextmanager
    def load(config: EngineConfig) -> Generator[Engine]:
        assert config.model == "m"
        yield tiny_engine

    monkeypatch.setattr("sureact.cli.serve.load_engine", load)

    def run(self: uvicorn.Server, sockets: list[socket.socket]) -> None:
        served.append(self.config)
        ports.extend(listener.getsockname()[1] for listener in sockets)
        socket.create_connection(sockets[0].getsockname(), timeout=5).close()

    monkeypatch.setattr(uvicorn.Server, "run", run)
    tools = tmp_path / "tools.py"
    tools.write_text("def add(a: int, b: int) -> int:\n    return a + b\n")
    assert main(["serve", "--model", "m", "--port", "0", "--tools", str(tools), "--tool-timeout-s", "7"]) == 0
    assert ports != [0]
    assert f"http://127.0.0.1:{ports[0]}/v1" in capsys.readouterr().err
    app: Any = served[0].app
    # The process of the tools watches over the 7 seconds; the server waits a little longer.
    assert [(name, tool.policy.timeout_s) for name, tool in app.state.serving.tools.items()] == [("add", 12)]


def test_a_port_in_use_is_told_before_the_model_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["serve", "--model", "nowhere", "--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert f"Error: Port {port} is in use" in said
    assert "Serving" not in said


def test_a_file_of_keys_that_is_not_there_is_told_as_one_of_tools_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--model", "nowhere", "--api-keys", "gone"]) == 2
    assert "file of keys gone cannot be read" in capsys.readouterr().err


def test_tools_that_cannot_be_read_are_told_before_the_model_is_loaded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tools = tmp_path / "tools.py"
    for text, said in (("def add(a: int) -> int\n", "line 1"), ("", "holds no tools"), (None, "no tool file")):
        if text is None:
            tools.unlink()
        else:
            tools.write_text(text)
        assert main(["serve", "--model", "nowhere", "--tools", str(tools)]) == 2
        assert said in capsys.readouterr().err
