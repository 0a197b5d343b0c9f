import os
import tempfile
from pathlib import Path

import pytest
from tests.engine.server.agent_servers import FINISH, PATH, SaltedScript, step
from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.async_engine import AsyncEngine
from sureact.server.app import create_app
from sureact.server.server_config import ServerConfig


def test_what_no_route_takes_is_refused_as_json(client: Client) -> None:
    gotten = [(client.get(path), 404) for path in ("/nowhere", "/health/", "/v1/models/")]
    posted = [(client.post("/v1/chat/completions/", {}), 404), (client.get("/v1/chat/completions"), 405)]
    for response, status in gotten + posted:
        assert response.status_code == status
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def test_a_chat_is_answered(client: Client, engine: ScriptedEngine) -> None:
    engine.say("Hello there, 你好 😀!")
    choice = client.answer()
    assert choice["message"] == {"role": "assistant", "content": "Hello there, 你好 😀!", "refusal": None}
    assert choice["finish_reason"] == "stop"


def test_serving_writes_no_file(
    client: Client, engine: ScriptedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    engine.say('{"a": 1}')
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    assert client.chat("x" * 100_000).status_code == 400
    assert client.chat(response_format=form, stream=True).status_code == 200
    assert client.post("/tokenize", {"prompt": "a" * 100_000}).status_code == 200
    assert client.post("/v1/completions", b"{").status_code == 400
    assert list(tmp_path.iterdir()) == []


def test_tools_of_a_file_run_in_a_process_of_their_own(engine: ScriptedEngine, tmp_path: Path) -> None:
    file = tmp_path / "server_tools.py"
    file.write_text("import os\ndef whose() -> list[int]:\n    return [os.getpid(), os.getppid()]\n")
    client = Client(create_app(AsyncEngine.of(engine), ServerConfig(tools=str(file))))
    client.app.state.serving.lm = SaltedScript([*step("whose"), *FINISH])
    answer = client.post(PATH, {"question": "?", "format": "fields"}).json()
    process_id, parent_id = map(int, answer["trajectory"][0]["observation"][1:-1].split(","))
    assert parent_id == os.getpid() != process_id
